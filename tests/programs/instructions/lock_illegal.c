// lock where it is not allowed is an illegal instruction.
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, s); }
int main(void) {
    on(SIGILL, handler, 0);
    volatile int x = 0;
    int got = sigsetjmp(out, 1);
    if (!got)
        asm volatile(".byte 0xf0, 0x8b, 0x03" ::"b"(&x) : "rax"); // lock mov eax, [rbx]
    printf("%d\n", got);
    got = sigsetjmp(out, 1);
    if (!got)
        asm volatile(".byte 0xf0, 0x01, 0xc0"); // lock add eax, eax
    printf("%d\n", got);
}
