// The arithmetic flags that a handler finds where an x87 instruction faults: x87 instructions have condition codes of their own, and change none
// of these.
#include "case.h"
static volatile uint64_t seen;
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    seen = u->uc_mcontext.gregs[REG_EFL] & 0x8d5;
    // Masked from here on.
    u->uc_mcontext.fpregs->cwd |= 0x3f;
    u->uc_mcontext.fpregs->swd &= ~0x80ff;
}
static uint64_t divide(uint8_t one, uint8_t other) {
    unsigned short control = 0x0372 & ~4, masked = 0x037f;
    double zero = 0;
    uint64_t word = 5, after;
    __asm__ volatile("fldcw %2; movb %5, %%al; addb %6, %%al; mov %3, %%rcx; fld1; fdivl %4; fwait; pushfq; pop %0; fstp %%st(0); fldcw %1"
                     : "=r"(after)
                     : "m"(masked), "m"(control), "m"(word), "m"(zero), "m"(one), "m"(other)
                     : "rax", "rcx", "cc", "memory");
    return after & 0x8d5;
}
int main(void) {
    on(SIGFPE, handler, 0);
    static const uint8_t values[][2] = {{0x7f, 1}, {0xff, 1}, {0x80, 0x80}, {1, 2}, {0xf0, 0x20}, {0x0f, 1}};
    for (unsigned n = 0; n < sizeof values / sizeof *values; n++) {
        uint64_t after = divide(values[n][0], values[n][1]);
        EXPECT(seen == after);
        printf("%#lx\n", after);
    }
}
