// An unmasked SSE exception kills.
// info: SIGFPE
#include "case.h"
int main(void) {
    uint32_t csr = 0x1f80 & ~0x200;
    float one = 1, zero = 0;
    asm volatile("ldmxcsr %1\n divss %2, %0" : "+x"(one) : "m"(csr), "x"(zero));
}
