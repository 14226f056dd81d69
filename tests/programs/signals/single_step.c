// The program sets the trap flag itself and counts single steps.
// message: single-steps itself
#include "case.h"
static volatile int steps;
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    if (++steps == 10)
        u->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
int main(void) {
    if (fork() == 0) {
    on(SIGTRAP, handler, 0);
    asm volatile("pushf\n orl $0x100, (%%rsp)\n popf\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n" ::: "cc", "memory");
        _exit(0);
    }
    EXPECT(wait(NULL) > 0);
    puts("done");
}
