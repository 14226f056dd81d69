// The last x87 instruction and operand, as fnstenv and fxsave store them. Recorded, the instruction's address is that of its copy (docs/src/limits.md), so
// it is not printed: that it replays is seen by the registers that it goes through.
#include "case.h"
static double operand = 3;
int main(void) {
    static uint32_t e[7];
    static uint64_t a[64] __attribute__((aligned(64)));
    asm volatile("fninit\n fldl %2\n fxsave64 %1\n fnstenv %0\n fninit" : "=m"(e), "=m"(a) : "m"(operand));
    // Each way through this loop has other registers.
    volatile uint64_t sum = 0;
    for (int i = 0; i < 64; i += 4)
        sum += (a[1] >> i & 15) * (e[3] >> i % 32 & 15);
    printf("%x %x\n", e[0] & 0xffff, e[2] & 0xffff);
}
