// Behind int3, the handler sees the address of the next instruction.
#include "case.h"
extern char after[];
static long rip;
static void handler(int s, siginfo_t *i, void *c) { rip = ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP]; }
int main(void) {
    on(SIGTRAP, handler, 0);
    asm volatile("int3\n.globl after\nafter: nop");
    printf("%ld\n", rip - (long)after);
}
