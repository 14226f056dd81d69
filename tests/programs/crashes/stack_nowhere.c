/* A push where the stack pointer is no address, and small values are in other registers: SIGBUS without an address. */
#include "case.h"

int main(void) {
    __asm__ volatile("mov $5, %%rax; mov $0x8000000000000000, %%rsp; push %%rax" ::: "rax", "memory");
    return 0;
}
