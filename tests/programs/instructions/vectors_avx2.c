// AVX and AVX2: all operand forms from memory, on data that the kernel has written.
// flags: -mavx2 -mfma -mf16c
#include "case.h"
#include <immintrin.h>
int main(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
        skip("no AVX2");
    int p[2];
    EXPECT(pipe(p) == 0);
    static float f[64] __attribute__((aligned(32)));
    static uint32_t w[64] __attribute__((aligned(32)));
    for (int round = 0; round < 20; round++) {
        float source[64];
        for (int n = 0; n < 64; n++)
            source[n] = n * 1.5f + round;
        EXPECT(write(p[1], source, 256) == 256 && read(p[0], f, 256) == 256);
        __m256 a = _mm256_load_ps(f), b = _mm256_loadu_ps(f + 3), c = _mm256_broadcast_ss(f + 9);
        a = _mm256_fmadd_ps(a, b, c);
        a = _mm256_add_ps(a, _mm256_mul_ps(*(__m256 *)(f + 16), *(__m256 *)(f + 24)));
        a = _mm256_blendv_ps(a, b, _mm256_cmp_ps(a, c, _CMP_GT_OQ));
        a = _mm256_insertf128_ps(a, *(__m128 *)(f + 20), 1);
        a = _mm256_sub_ps(a, _mm256_cvtph_ps(*(__m128i *)(f + 40)));
        *(__m256 *)f = a;
        _mm_storeu_si128((__m128i *)(w + 1), _mm256_cvtps_ph(a, 0));
        __m256i i = _mm256_loadu_si256((__m256i *)(f + 30)), j = _mm256_cvtepu8_epi32(_mm_loadl_epi64((__m128i *)(f + 11)));
        i = _mm256_shuffle_epi8(i, *(__m256i *)(f + 8));
        i = _mm256_add_epi32(_mm256_permutevar8x32_epi32(i, j), _mm256_broadcastsi128_si256(*(__m128i *)(f + 4)));
        i = _mm256_srlv_epi32(_mm256_maddubs_epi16(i, j), _mm256_set1_epi32(round & 7));
        i = _mm256_xor_si256(i, _mm256_sad_epu8(*(__m256i *)f, i));
        _mm256_stream_si256((__m256i *)(w + 8), i);
        _mm_storel_epi64((__m128i *)(w + 40), _mm256_castsi256_si128(i));
        w[50] = _mm256_movemask_epi8(i) + _mm256_extract_epi32(i, 5);
        memcpy(f + 32, w, 64);
    }
    uint32_t sum = 0;
    for (int n = 0; n < 64; n++)
        sum = sum * 31 + w[n];
    printf("%x\n", sum);
}
