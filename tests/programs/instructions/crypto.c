// AES, PCLMUL, SHA, and the vector forms of AES and PCLMUL, from memory.
// flags: -mavx2 -maes -mpclmul -msha -mssse3 -msse4.1
// record: --cpu host
#include "case.h"
#include <immintrin.h>
int main(void) {
    if (!__builtin_cpu_supports("aes") || !__builtin_cpu_supports("pclmul"))
        skip("no AES");
    uint32_t a, b, c, d;
    asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    int p[2];
    EXPECT(pipe(p) == 0);
    static __m128i k[8];
    __m128i x = _mm_set1_epi32(7);
    for (int round = 0; round < 100; round++) {
        char data[sizeof k];
        for (unsigned n = 0; n < sizeof k; n++)
            data[n] = n * n + round;
        EXPECT(write(p[1], data, sizeof k) == sizeof k && read(p[0], k, sizeof k) == sizeof k);
        x = _mm_aesenc_si128(x, k[0]), x = _mm_aesenclast_si128(x, k[1]), x = _mm_aesdec_si128(x, k[2]);
        x = _mm_aesdeclast_si128(x, k[3]), x = _mm_xor_si128(x, _mm_aesimc_si128(k[4]));
        x = _mm_xor_si128(x, _mm_aeskeygenassist_si128(k[5], 3)), x = _mm_clmulepi64_si128(x, k[6], 0x11);
        if (b >> 29 & 1) {
            x = _mm_sha256rnds2_epu32(x, k[1], k[2]), x = _mm_sha256msg1_epu32(x, k[3]);
            x = _mm_sha256msg2_epu32(x, k[4]), x = _mm_sha1rnds4_epu32(x, k[5], 2);
            x = _mm_sha1nexte_epu32(x, k[6]), x = _mm_sha1msg1_epu32(x, k[7]), x = _mm_sha1msg2_epu32(x, k[0]);
        }
        if (c >> 9 & 1) {
            __m256i y = _mm256_broadcastsi128_si256(x);
            asm volatile("vaesenc %1, %0, %0\n vpclmulqdq $1, %1, %0, %0" : "+x"(y) : "m"(*(__m256i *)&k[2]));
            x = _mm_xor_si128(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
        }
    }
    printf("%llx %llx\n", _mm_extract_epi64(x, 0), _mm_extract_epi64(x, 1));
}
