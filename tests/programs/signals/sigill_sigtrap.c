// SIGILL of ud2, SIGTRAP of int3 and int1: addresses and codes as the processor has them.
#include "case.h"
static volatile long offset;
static volatile int number, code;
extern char start[];
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    number = s, code = i->si_code;
    offset = u->uc_mcontext.gregs[REG_RIP] - (long)start;
    if (s == SIGILL) {
        EXPECT(i->si_addr == (void *)u->uc_mcontext.gregs[REG_RIP]);
        u->uc_mcontext.gregs[REG_RIP] += 2;
    }
}
int main(void) {
    on(SIGILL, handler, 0);
    on(SIGTRAP, handler, 0);
    for (int n = 0; n < 3; n++) {
        uint64_t x = 5;
        asm volatile("add $1, %0\n .globl start\nstart: ud2\n add $1, %0" : "+r"(x)::"cc");
        printf("ud2 %d %d %ld %lu\n", number, code, offset, x);
        asm volatile("lea start(%%rip), %0\n int3\n add $1, %0" : "+r"(x)::"cc");
        printf("int3 %d %d\n", number, code);
        EXPECT(x == (uint64_t)start + 1);
    }
}
