// Instructions whose results no replay can compute.
// record: --cpu host
#include "case.h"
#include <cpuid.h>
int main(void) {
    unsigned a, b, c, d, b7, c7;
    __cpuid(1, a, b, c, d);
    int rdrand = c >> 30 & 1, xsave = c >> 27 & 1;
    __cpuid_count(7, 0, a, b7, c7, d);
    __cpuid(0x80000001, a, b, c, d);
    int tscp = d >> 27 & 1;
    uint64_t last = 0, sum = 0;
    for (int n = 0; n < 200; n++) {
        uint32_t lo, hi, aux = 0;
        asm volatile("rdtsc" : "=a"(lo), "=d"(hi));
        uint64_t now = (uint64_t)hi << 32 | lo;
        EXPECT(now >= last);
        last = now;
        if (tscp)
            asm volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(aux));
        uint64_t id = 0, r = 0, s = 0;
        uint8_t ok = 1;
        if (c7 >> 22 & 1)
            asm volatile("rdpid %0" : "=r"(id));
        EXPECT((id & 0xfff) < 4096);
        if (rdrand)
            asm volatile("rdrand %0\n setc %1" : "=r"(r), "=q"(ok)::"cc");
        EXPECT(ok <= 1);
        if (b7 >> 18 & 1)
            asm volatile("rdseed %w0\n setc %1" : "+r"(s), "=q"(ok)::"cc");
        EXPECT(s < 65536);
        if (xsave)
            asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        sum += (lo & 3) == 3;
        for (unsigned leaf = 0; leaf < 14; leaf++)
            __cpuid_count(leaf, n % 3, a, b, c, d);
    }
    printf("%lu\n", sum);
}
