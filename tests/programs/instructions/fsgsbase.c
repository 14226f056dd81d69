// FSGSBASE is not shown to the program: neither by CPUID nor by AT_HWCAP2.
#include "case.h"
#include <cpuid.h>
#include <sys/auxv.h>
int main(void) {
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    // Whoever tests for it first never executes it.
    if (b & 1 && getauxval(AT_HWCAP2) & 2) {
        uint64_t fs;
        asm volatile("rdfsbase %0" : "=r"(fs));
        EXPECT(fs == *(uint64_t *)(fs));
    }
    puts("done");
}
