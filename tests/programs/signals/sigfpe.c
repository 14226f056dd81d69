// SIGFPE: divisions, and x87 and SSE exceptions that are unmasked. The handler goes on behind the instruction.
#include "case.h"
#include <fenv.h>
static volatile int code, count;
static int length;
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    code = i->si_code, count++;
    EXPECT(i->si_addr == (void *)u->uc_mcontext.gregs[REG_RIP]);
    u->uc_mcontext.gregs[REG_RIP] += length;
    // Masks and clears whatever it was.
    u->uc_mcontext.fpregs->mxcsr = 0x1f80;
    u->uc_mcontext.fpregs->cwd = 0x37f;
    u->uc_mcontext.fpregs->swd &= ~0x80ff;
}
int main(void) {
    on(SIGFPE, handler, 0);
    for (int n = 0; n < 5; n++) {
        uint32_t lo = 10, hi = 0;
        length = 2;
        asm volatile("divl %2" : "+a"(lo), "+d"(hi) : "c"(0) : "cc");
        printf("div %d %u\n", code, lo);
        lo = 0x80000000, hi = 0xffffffff;
        asm volatile("idivl %2" : "+a"(lo), "+d"(hi) : "c"(-1) : "cc");
        printf("idiv %d %x\n", code, lo);
        uint32_t csr = 0x1f80 & ~0x200, old = 0x1f80;
        float one = 1, zero = 0;
        length = 4;
        asm volatile("ldmxcsr %1\n divss %2, %0\n ldmxcsr %3" : "+x"(one) : "m"(csr), "x"(zero), "m"(old));
        printf("divss %d %g\n", code, one);
        csr = 0x1f80 & ~0x1000;
        one = 1;
        float three = 3;
        asm volatile("ldmxcsr %1\n divss %2, %0\n ldmxcsr %3" : "+x"(one) : "m"(csr), "x"(three), "m"(old));
        printf("inexact %d %g\n", code, one);
        uint16_t cw = 0x37b;
        length = 1; // the fwait
        asm volatile("fninit\n fldcw %0\n fld1\n fldz\n fdivrp\n fwait\n fninit" ::"m"(cw));
        printf("x87 %d\n", code);
    }
    printf("%d\n", count);
}
