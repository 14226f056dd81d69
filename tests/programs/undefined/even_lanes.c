// A multiplication of vectors takes every other number: those between them decide nothing.
// finds: branch heap

#include <emmintrin.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) static unsigned long long sum(const unsigned *numbers) {
    __m128i four = _mm_loadu_si128((const __m128i *)numbers);
    __m128i squares = _mm_mul_epu32(four, four);
    unsigned long long both[2];
    _mm_storeu_si128((__m128i *)both, squares);
    return both[0] + both[1];
}

int main(void) {
    unsigned *set = malloc(16), *unset = malloc(16);
    set[0] = 3, set[2] = 4;
    unset[0] = 3;
    if (sum(set) == 25)
        puts("set");
    if (sum(unset) == 25) /* HERE */
        puts("by chance");
    free(set);
    free(unset);
}
