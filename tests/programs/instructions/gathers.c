// Gathers with all patterns of masks, indices up and down, and lanes that are masked off in pages without access.
// flags: -mavx2
#include "case.h"
#include <immintrin.h>
int main(void) {
    if (!__builtin_cpu_supports("avx2"))
        skip("no AVX2");
    char *end = page_end();
    int fd = open("/proc/self/exe", O_RDONLY);
    EXPECT(read(fd, end - 4096, 4096) == 4096);
    for (int n = 0; n < 1024; n++)
        ((uint32_t *)(end - 4096))[n] = n * 2654435761u;
    uint64_t sum = 0;
    int *table = (int *)(end - 4096);
    for (int pattern = 0; pattern < 256; pattern++) {
        int mask[8], index[8];
        long long mask64[4], index64[4];
        for (int n = 0; n < 8; n++) {
            mask[n] = pattern >> n & 1 ? 0x80000000 : 0x7fffffff;
            index[n] = pattern >> n & 1 ? (n * 97 + pattern * 13) % 500 - 0 : 1 << 26;
        }
        for (int n = 0; n < 4; n++)
            mask64[n] = (long long)mask[n] << 32, index64[n] = index[n];
        __m256i m = _mm256_loadu_si256((__m256i *)mask), i = _mm256_loadu_si256((__m256i *)index);
        __m256i m6 = _mm256_loadu_si256((__m256i *)mask64), i6 = _mm256_loadu_si256((__m256i *)index64);
        __m256i src = _mm256_set1_epi32(pattern);
        __m256i a = _mm256_mask_i32gather_epi32(src, table, i, m, 4);
        __m256i b = _mm256_mask_i64gather_epi64(src, (long long *)table, i6, m6, 4);
        __m256i c = _mm256_mask_i32gather_epi64(src, (long long *)table, _mm256_castsi256_si128(i), m6, 4);
        __m128i d = _mm256_mask_i64gather_epi32(_mm256_castsi256_si128(src), table, i6, _mm256_castsi256_si128(m), 4);
        __m256 e = _mm256_mask_i32gather_ps(_mm256_castsi256_ps(src), (float *)table, i, _mm256_castsi256_ps(m), 2);
        __m128d f = _mm_mask_i32gather_pd(_mm_castsi128_pd(_mm256_castsi256_si128(src)), (double *)table,
                                          _mm256_castsi256_si128(i), _mm_castsi128_pd(_mm256_castsi256_si128(m6)), 4);
        __m128i g = _mm_mask_i64gather_epi32(_mm256_castsi256_si128(src), table, _mm256_castsi256_si128(i6),
                                             _mm256_castsi256_si128(m), 1);
        uint64_t out[24];
        _mm256_storeu_si256((__m256i *)out, a), _mm256_storeu_si256((__m256i *)(out + 4), b);
        _mm256_storeu_si256((__m256i *)(out + 8), c), _mm256_storeu_ps((float *)(out + 12), e);
        _mm_storeu_si128((__m128i *)(out + 16), d), _mm_storeu_pd((double *)(out + 18), f);
        _mm_storeu_si128((__m128i *)(out + 20), g);
        for (int n = 0; n < 22; n++)
            sum = sum * 31 + out[n];
    }
    printf("%lx\n", sum);
}
