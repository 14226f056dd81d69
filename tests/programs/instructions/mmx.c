// MMX, and its aliasing with x87.
// flags: -mmmx -msse2
#include "case.h"
#include <mmintrin.h>
int main(void) {
    static volatile uint64_t m[4] = {0x0102030405060708, 0x1112131415161718, 7, 0};
    uint64_t sum = 0;
    for (int n = 0; n < 100; n++) {
        m[0] += n;
        uint16_t status;
        asm volatile("movq %1, %%mm0\n paddb %2, %%mm0\n pmaddwd %1, %%mm0\n movq %%mm0, %%mm7\n pshufw $0x1b, %2, %%mm1\n"
                     "pxor %%mm1, %%mm0\n psllq $3, %%mm0\n movntq %%mm0, %0\n movd %%mm7, %%eax\n maskmovq %%mm1, %%mm7\n"
                     "fnstsw %3\n emms"
                     : "=m"(m[3]) : "m"(m[0]), "m"(m[1]), "m"(status), "D"(&m[2])
                     : "eax", "memory", "mm0", "mm1", "mm7");
        sum = sum * 31 + m[3] + m[2];
        double d;
        asm volatile("fldpi\n fstpl %0" : "=m"(d)::"st");
        EXPECT(d > 3.14 && d < 3.15);
    }
    printf("%lx\n", sum);
}
