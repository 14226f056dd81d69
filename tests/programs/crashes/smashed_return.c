// A return address that was overwritten: the fault is at the return.
// flags: -O0 -fno-stack-protector -w
// info: SIGSEGV returning to what is no address, at smashed_return.c
// info: SI_KERNEL
#include "case.h"
__attribute__((noinline)) static void copy(const char *from) {
    char small[8];
    strcpy(small, from);
    asm volatile("" ::"r"(small) : "memory");
}
int main(void) {
    copy("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
}
