// An integer overflow: the sum of squares is one of 32 bits.
// fails: output
// slice: thin
// repair: all += (uint64_t)samples[i] * samples[i];
#include <stdint.h>
#include <stdio.h>

#define COUNT 20

static uint32_t samples[COUNT];

static void measure(void) {
    uint32_t state = 12345;
    for (int i = 0; i < COUNT; i++) {
        state = state * 1103515245u + 12345u;
        samples[i] = 50000 + (state >> 16) % 40000;
    }
}

static uint64_t squares(void) {
    uint64_t all = 0;
    for (int i = 0; i < COUNT; i++)
        all += samples[i] * samples[i]; /* BUG */
    return all;
}

static uint32_t smallest(void) {
    uint32_t least = samples[0];
    for (int i = 1; i < COUNT; i++)
        if (samples[i] < least)
            least = samples[i]; /* NOT */
    return least;
}

int main(void) {
    measure();
    printf("smallest %u\n", smallest());
    printf("squares %020lu\n", (unsigned long)squares());
    return 0;
}
