// Work of a chosen size for gdb's own recorder, which takes a millisecond for some hundred instructions: sums ROUNDS
// Nothing between begin() and finish() is a system call, or an instruction that gdb does not know.
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t table[64];

__attribute__((noinline)) void begin(void) { __asm__ volatile(""); }

__attribute__((noinline)) void finish(void) { __asm__ volatile(""); }

__attribute__((noinline)) static uint64_t step(uint64_t x) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    table[x & 63] += x;
    return x;
}

int main(int argc, char **argv) {
    uint64_t rounds = argc > 1 ? strtoull(argv[1], 0, 0) : 1, x = 88172645463325252u;
    begin();
    for (uint64_t i = 0; i < rounds; i++)
        x = step(x);
    finish();
    return x == 0;
}
