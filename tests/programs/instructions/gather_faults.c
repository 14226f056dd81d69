// A gather that faults in the middle: what was gathered before stays, and the mask says so.
// flags: -mavx2
#include "case.h"
#include <immintrin.h>
static char *end;
static volatile int faults;
static void handler(int s, siginfo_t *i, void *c) {
    faults++;
    EXPECT((char *)i->si_addr >= end && (char *)i->si_addr < end + 4096);
    mprotect(end, 4096, PROT_READ | PROT_WRITE);
}
int main(void) {
    if (!__builtin_cpu_supports("avx2"))
        skip("no AVX2");
    end = page_end();
    on(SIGSEGV, handler, 0);
    int *table = (int *)(end - 4096);
    for (int n = 0; n < 1024; n++)
        table[n] = n;
    int index[8] = {1, 2, 3, 4, 1030, 6, 1031, 8}, out[8];
    for (int n = 0; n < 4; n++) {
        mprotect(end, 4096, PROT_NONE);
        __m256i v = _mm256_i32gather_epi32(table, _mm256_loadu_si256((__m256i *)index), 4);
        _mm256_storeu_si256((__m256i *)out, v);
        EXPECT(out[0] == 1 && out[3] == 4 && out[4] == 0 && out[5] == 6 && out[7] == 8);
    }
    printf("%d\n", faults);
}
