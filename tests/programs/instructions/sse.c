// SSE to SSE4.2: loads of all widths, string compares, stores past the caches.
// flags: -msse4.2 -mpopcnt
#include "case.h"
#include <immintrin.h>
int main(void) {
    if (!__builtin_cpu_supports("sse4.2"))
        skip("no SSE4.2");
    char *end = page_end();
    int fd = open("/proc/self/exe", O_RDONLY);
    uint64_t sum = 0;
    for (int round = 0; round < 30; round++) {
        for (int n = 0; n < 4096; n++)
            end[-1 - n] = n * (round + 3) >> 2;
        __m128i a = _mm_loadu_si128((__m128i *)(end - 16)), b = _mm_lddqu_si128((__m128i *)(end - 37));
        b = _mm_add_epi16(b, *(__m128i *)(end - 64));
        b = _mm_cvtepi8_epi64(_mm_cvtsi32_si128(*(short *)(end - 2)));
        a = _mm_insert_epi16(a, *(short *)(end - 2), 3);
        a = _mm_insert_epi8(a, end[-1], 5);
        a = _mm_xor_si128(a, _mm_loadl_epi64((__m128i *)(end - 8)));
        a = _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(a), (__m64 *)(end - 8)));
        a = _mm_castps_si128(_mm_insert_ps(_mm_castsi128_ps(a), _mm_load_ss((float *)(end - 4)), 0x10));
        sum += _mm_cmpestri(a, 7, *(__m128i *)(end - 128), 16, _SIDD_CMP_EQUAL_EACH);
        sum += _mm_cmpistri(a, *(__m128i *)(end - 256), _SIDD_CMP_RANGES);
        sum += _mm_crc32_u64(sum, *(uint64_t *)(end - 8)) + _mm_crc32_u8(sum, end[-1]) + _mm_popcnt_u64(*(uint64_t *)(end - 16));
        a = _mm_stream_load_si128((__m128i *)(end - 32));
        _mm_stream_si128((__m128i *)(end - 48), _mm_mpsadbw_epu8(a, b, 3));
        _mm_stream_si64((long long *)(end - 72), sum);
        _mm_storeh_pi((__m64 *)(end - 8), _mm_castsi128_ps(a));
        *(int *)(end - 20) = _mm_extract_epi32(a, 2);
        _mm_sfence();
        double d = *(double *)(end - 512);
        a = _mm_castpd_si128(_mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((__m128i *)(end - 8)))));
        sum += _mm_comieq_sd(_mm_set_sd(d), _mm_castsi128_pd(a)) + _mm_cvtsi128_si64(a);
        EXPECT(pread(fd, end - 1000, 500, round * 10) == 500);
        for (int n = 0; n < 128; n++)
            sum = sum * 31 + ((uint64_t *)(end - 1024))[n];
    }
    printf("%lx\n", sum);
}
