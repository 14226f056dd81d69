// xsave, xsavec, xsaveopt, xrstor, with different masks.
// flags: -mavx
#include "case.h"
#include <cpuid.h>
static unsigned char area[4096] __attribute__((aligned(64)));
static sigjmp_buf behind;
static uint64_t rax_there, rdx_there;
static void on_fault(int signal, siginfo_t *info, void *context) {
    const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    rax_there = regs[REG_RAX], rdx_there = regs[REG_RDX];
    siglongjmp(behind, 1);
}
int main(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    if (!(c >> 27 & 1))
        skip("no XSAVE");
    __cpuid_count(13, 1, a, b, c, d);
    unsigned more = a;
    uint64_t v[4] = {1, 2, 3, 4}, w[4], sum = 0;
    for (unsigned mask = 0; mask < 8; mask++) {
        v[0] += mask;
        memset(area, 0, sizeof area);
        asm volatile("vmovdqu %0, %%ymm5\n fninit\n fldpi" ::"m"(v) : "xmm5");
        asm volatile("xsave64 %0" : "+m"(area) : "a"(mask), "d"(0) : "memory");
        asm volatile("vxorps %%ymm5, %%ymm5, %%ymm5\n xrstor64 %1\n vmovdqu %%ymm5, %0\n fninit" : "=m"(w) : "m"(area), "a"(mask), "d"(0) : "xmm5");
        sum = sum * 31 + w[0] + w[1] * 3 + w[2] * 5 + w[3] * 7 + area[512] % 8 + area[416 - 176];
        if (more & 1) {
            asm volatile("vmovdqu %1, %%ymm5\n xsaveopt %0\n xrstor %0\n" : "+m"(area) : "m"(v), "a"(mask), "d"(0) : "xmm5", "memory");
            sum += area[160 + 16 * 5];
        }
        if (more & 2) {
            memset(area, 0, sizeof area);
            asm volatile("vmovdqu %1, %%ymm5\n xsavec64 %0\n xrstor64 %0" : "+m"(area) : "m"(v), "a"(mask), "d"(0) : "xmm5", "memory");
            sum += area[160 + 16 * 5];
        }
    }
    // Components that the processor may have, but CPUID does not show, are stored nowhere.
    __cpuid_count(7, 0, a, b, c, d);
    int avx512 = b >> 16 & 1;
    memset(area, 0, sizeof area);
    uint64_t all = 0xe7, high = 0;
    asm volatile("xsave64 %0" : "+m"(area), "+a"(all), "+d"(high)::"memory");
    EXPECT(all == 0xe7 && high == 0);
    for (unsigned i = 832; i < sizeof area && !avx512; i++)
        EXPECT(area[i] == 0);
    EXPECT(avx512 || !(area[512] & 0xe0));
    on(SIGSEGV, on_fault, 0);
    // Where it faults, they are still selected.
    uint64_t *nowhere = (uint64_t *)page_end();
    if (!sigsetjmp(behind, 1))
        asm volatile("xsave64 (%0)" ::"r"(nowhere), "a"(0xe7), "d"(0x12) : "memory");
    EXPECT(rax_there == 0xe7 && rdx_there == 0x12);
    printf("%lx\n", sum);
}
