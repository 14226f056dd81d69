// Masked loads and stores whose other lanes lie in pages that are not accessible.
// flags: -mavx2
#include "case.h"
#include <immintrin.h>
int main(void) {
    if (!__builtin_cpu_supports("avx2"))
        skip("no AVX2");
    char *end = page_end();
    uint32_t sum = 0;
    for (int n = 0; n < 512; n++)
        ((uint64_t *)(end - 4096))[n] = n * 0x9e3779b97f4a7c15;
    for (int lanes = 0; lanes <= 8; lanes++) {
        int mask[8];
        for (int n = 0; n < 8; n++)
            mask[n] = n < lanes ? -1 : 0x7fffffff;
        __m256i m = _mm256_loadu_si256((__m256i *)mask);
        int *at = (int *)end - lanes;
        __m256i v = _mm256_maskload_epi32(at, m);
        __m256 f = _mm256_maskload_ps((float *)at, m);
        _mm256_maskstore_epi32(at, m, _mm256_add_epi32(v, _mm256_castps_si256(f)));
        _mm256_maskstore_ps((float *)at - 1, m, _mm256_castsi256_ps(v));
        sum += _mm256_extract_epi32(v, 0) + _mm256_extract_epi32(v, 7) * 3;
        if (lanes <= 4) {
            long long mq[4];
            for (int n = 0; n < 4; n++)
                mq[n] = n < lanes ? -1 : 0;
            __m256i q = _mm256_loadu_si256((__m256i *)mq);
            long long *aq = (long long *)end - lanes;
            _mm256_maskstore_epi64(aq, q, _mm256_maskload_epi64(aq, q));
            __m128i x = _mm_maskload_epi32((int *)end - lanes, _mm_loadu_si128((__m128i *)mask));
            sum += _mm_extract_epi32(x, 1);
        }
        // maskmovdqu: bytes that are masked off may be anywhere, too.
        char bytes[16];
        for (int n = 0; n < 16; n++)
            bytes[n] = n < lanes ? -128 : 1;
        _mm_maskmoveu_si128(_mm256_castsi256_si128(v), _mm_loadu_si128((__m128i *)bytes), end - 16);
    }
    // From the front, where the page before is not accessible.
    mprotect(end - 4096, 4096, PROT_NONE), mprotect(end, 4096, PROT_READ | PROT_WRITE);
    for (int n = 0; n < 1024; n++)
        ((int *)end)[n] = n;
    for (int lanes = 0; lanes <= 8; lanes++) {
        int mask[8];
        for (int n = 0; n < 8; n++)
            mask[n] = n >= 8 - lanes ? -1 : 0;
        __m256i v = _mm256_maskload_epi32((int *)end - 8 + lanes, _mm256_loadu_si256((__m256i *)mask));
        sum = sum * 7 + _mm256_extract_epi32(v, 7);
    }
    printf("%x\n", sum);
}
