// AVX-512 where the processor has it: masks, compression, gather, scatter. Hidden when recorded, so that the program
// computes the same in another way.
#include "case.h"
#include <cpuid.h>
#include <immintrin.h>
static int has(void) {
    unsigned a, b, c, d, lo, hi;
    __cpuid(1, a, b, c, d);
    if (!(c >> 27 & 1))
        return 0;
    asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    __cpuid_count(7, 0, a, b, c, d);
    return (lo & 0xe6) == 0xe6 && (b >> 16 & 1) && (b >> 30 & 1) && (b >> 31 & 1);
}
static __attribute__((noinline, target("avx512f,avx512vl,avx512bw"))) uint32_t wide(const uint32_t *in) {
    __m512i v = _mm512_loadu_si512(in), i = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t out[16] = {0};
    __mmask16 odd = _mm512_test_epi32_mask(v, _mm512_set1_epi32(1));
    _mm512_mask_compressstoreu_epi32(out, odd, v);
    v = _mm512_mask_i32gather_epi32(v, odd, i, in, 4);
    _mm512_mask_i32scatter_epi32(out, (__mmask16)~odd, i, v, 4);
    uint32_t sum = 0;
    for (int n = 0; n < 16; n++)
        sum = sum * 31 + out[n];
    return sum;
}
static __attribute__((noinline, target("no-avx512f"))) uint32_t narrow(const uint32_t *in) {
    uint32_t out[16] = {0}, sum = 0;
    int at = 0;
    for (int n = 0; n < 16; n++)
        if (in[n] & 1)
            out[at++] = in[n];
    for (int n = 0; n < 16; n++)
        if (!(in[n] & 1))
            out[n] = in[n];
    for (int n = 0; n < 16; n++)
        sum = sum * 31 + out[n];
    return sum;
}
int __attribute__((target("no-avx512f"))) main(void) {
    uint32_t in[16], sum = 0;
    int wider = has();
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t n = 0; n < 16; n++)
            in[n] = (n + round) * 2654435761u >> 3;
        sum += wider ? wide(in) : narrow(in);
    }
    printf("%x\n", sum);
}
