// Instructions that only order: fences, pause, serialize where there is one, clflush, prefetches.
#include "case.h"
#include <cpuid.h>
int main(void) {
    unsigned a, b, c, d;
    static char line[256];
    __cpuid_count(7, 0, a, b, c, d);
    for (int n = 0; n < 50; n++) {
        asm volatile("mfence\n lfence\n sfence\n pause\n clflush %0\n prefetcht0 %0\n prefetchnta %0\n prefetcht1 %0\n prefetcht2 %0" : "+m"(line));
        asm volatile("prefetcht0 (%0)" ::"r"(0x10));
        if (b >> 23 & 1)
            asm volatile("clflushopt %0" : "+m"(line));
        if (b >> 24 & 1)
            asm volatile("clwb %0" : "+m"(line));
        if (d >> 14 & 1)
            asm volatile(".byte 0x0f, 0x01, 0xe8");
        __cpuid(0, a, d, a, d);
        __cpuid_count(7, 0, a, b, c, d);
    }
    puts("done");
}
