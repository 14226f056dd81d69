// What a 32-bit system call leaves in registers: unlike `syscall`, it leaves RCX as it was.
#include "case.h"
int main(void) {
    long r = 20, c = 0x1234567890;
    asm volatile("int $0x80" : "+a"(r), "+c"(c)::"r8", "r9", "r10", "r11", "memory");
    printf("%d %lx\n", r == getpid(), c);
}
