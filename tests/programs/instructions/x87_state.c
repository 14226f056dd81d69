// x87 state as the program sees it: fxsave, fxrstor, fnsave, frstor, fnstenv, fldenv, and the tag words.
#include "case.h"
int main(void) {
    static unsigned char a[512] __attribute__((aligned(64))), b[512] __attribute__((aligned(64))), s[108], e[28];
    static unsigned char shown[600];
    double x = 1.5, y = -2.25;
    uint64_t sum = 0;
    for (int n = 0; n < 50; n++) {
        x += n;
        asm volatile("fninit\n fldl %2\n fldl %3\n fadd %%st(0), %%st(1)\n fxsave64 %0\n fnsave %1\n" : "=m"(a), "=m"(s) : "m"(x), "m"(y));
        asm volatile("fxrstor64 %1\n fnstenv %0\n fldenv %0\n fxsave %2\n frstor %3\n fstpl %4\n fstpl %5\n fxrstor %2\n fninit"
                     : "=m"(e), "+m"(a), "=m"(b) : "m"(s), "m"(y), "m"(x) : "memory");
        // All but the pointers to the last instruction and operand.
        memcpy(shown, a, 8), memcpy(shown + 8, a + 24, 8), memcpy(shown + 16, a + 32, 128);
        memcpy(shown + 144, s, 12), memcpy(shown + 156, s + 28, 80), memcpy(shown + 236, e, 12);
        memcpy(shown + 248, b + 32, 128);
        for (int k = 0; k < 376; k++)
            sum = sum * 31 + shown[k];
        EXPECT(y == 0 || y != 0);
        if (n == 7)
            printf("%g %g %x %x %x\n", x, y, s[8], s[9], a[4]);
    }
    printf("%lx\n", sum);
}
