// 32-bit system calls from a 64-bit program.
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, s); }
int main(void) {
    on(SIGSEGV, handler, 0);
    if (sigsetjmp(out, 1))
        skip("no 32-bit system calls here");
    long r = 20; // getpid
    asm volatile("int $0x80" : "+a"(r)::"r8", "r9", "r10", "r11", "memory");
    if (r < 0)
        skip("no 32-bit system calls here");
    printf("%d\n", r == getpid());
}
