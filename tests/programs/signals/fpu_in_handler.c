// A handler begins with x87 state and MXCSR as a program does, whatever the interrupted code has set; and that comes back.
#include "case.h"
static volatile int count;
static volatile double one = 1, three = 3, quotient;
static uint32_t mxcsr(void) {
    uint32_t value;
    asm volatile("stmxcsr %0" : "=m"(value));
    return value;
}
static uint16_t control(void) {
    uint16_t value;
    asm volatile("fnstcw %0" : "=m"(value));
    return value;
}
static uint16_t status(void) {
    uint16_t value;
    asm volatile("fnstsw %0" : "=m"(value));
    return value;
}
static void handler(int s, siginfo_t *i, void *c) {
    count++;
    EXPECT(mxcsr() == 0x1f80 && control() == 0x37f && status() == 0);
    quotient = one / three;
    uint32_t down = 0x3f80;
    asm volatile("ldmxcsr %0\n fld1\n fldpi" ::"m"(down));
    if (s == SIGSEGV)
        ((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP] += 3;
}
int main(void) {
    on(SIGUSR1, handler, 0);
    on(SIGSEGV, handler, 0);
    double nearest = one / three, upwards = 0;
    for (int n = 0; n < 20; n++) {
        uint32_t up = 0x5f80;
        uint16_t single = 0x7f;
        asm volatile("fninit\n fldcw %1\n fldz\n ldmxcsr %0" ::"m"(up), "m"(single));
        upwards = one / three;
        uint32_t before = mxcsr();
        if (n % 2)
            raise(SIGUSR1);
        else
            asm volatile("movq (%%rax), %%rcx" ::"a"(8ull) : "rcx");
        EXPECT(mxcsr() == before && control() == single && status() >> 11 == 7);
        EXPECT(quotient == nearest && one / three == upwards && upwards != nearest);
        asm volatile("fninit\n ldmxcsr %0" ::"m"((uint32_t){0x1f80}));
    }
    printf("%d %a %a\n", count, quotient, upwards);
}
