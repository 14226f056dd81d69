// The process ends by the 32-bit system call `exit`.
#include "case.h"
int main(void) {
    asm volatile("int $0x80" ::"a"(20) : "r8", "r9", "r10", "r11", "memory");
    puts("done");
    fflush(stdout);
    asm volatile("int $0x80" ::"a"(1), "b"(7) : "memory");
    return 1;
}
