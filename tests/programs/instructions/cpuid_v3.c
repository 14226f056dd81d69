// At the default level, CPUID shows AVX2 where it is, and never AVX-512.
#include "case.h"
#include <cpuid.h>
int main(void) {
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    int avx2 = b >> 5 & 1;
    EXPECT(!!__builtin_cpu_supports("avx2") == avx2);
    if (b >> 16 & 1) {
        // Only natively: recorded, the program does not get here.
        unsigned lo, hi;
        asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    }
    printf("%d\n", avx2);
}
