// A handler that changes the upper half of a YMM register in the XSAVE area of its frame.
// flags: -mavx
#include "case.h"
#include <cpuid.h>
#include <immintrin.h>
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    char *fp = (char *)u->uc_mcontext.fpregs;
    uint32_t magic, offset, b, cx, d;
    memcpy(&magic, fp + 464, 4);
    EXPECT(magic == 0x46505853);
    __cpuid_count(13, 2, magic, offset, cx, d);
    (void)b, (void)cx, (void)d;
    uint64_t value = 0x1122334455667788;
    memcpy(fp + offset + 3 * 16, &value, 8);
    uint64_t state;
    memcpy(&state, fp + 512, 8);
    state |= 7;
    memcpy(fp + 512, &state, 8);
    u->uc_mcontext.gregs[REG_RIP] += 2;
    asm volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4");
}
int main(void) {
    if (!__builtin_cpu_supports("avx"))
        skip("no AVX");
    on(SIGILL, handler, 0);
    uint64_t in[4] = {1, 2, 3, 4}, out[4], other[4];
    asm volatile("vmovdqu %2, %%ymm3\n vmovdqu %2, %%ymm4\n ud2\n vmovdqu %%ymm3, %0\n vmovdqu %%ymm4, %1\n vzeroupper"
                 : "=m"(out), "=m"(other) : "m"(in) : "xmm3", "xmm4", "memory");
    printf("%lx %lx %lx %lx\n", out[0], out[1], out[2], out[3]);
    printf("%lx %lx %lx %lx\n", other[0], other[1], other[2], other[3]);
}
