// Work of a chosen size: growth MILLIONS THREADS MEGABYTES
// Each thread makes its share of MILLIONS of millions of steps, of about ten instructions each, on its share of memory.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t steps, words;

static void *work(void *memory) {
    uint64_t *m = memory, x = 88172645463325252u, sum = 0;
    for (uint64_t i = 0; i < steps; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t *p = m + (x & (words - 1));
        sum += *p;
        *p = i;
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    uint64_t threads = strtoull(argv[2], 0, 0);
    steps = strtoull(argv[1], 0, 0) * 1000000 / threads;
    // A power of two, at most the share.
    uint64_t share = (strtoull(argv[3], 0, 0) << 20) / 8 / threads;
    for (words = 1; words * 2 <= share; words *= 2)
        ;
    uint64_t *memory = calloc(words * threads, 8), sum = 0;
    if (threads == 1) {
        sum = (uint64_t)work(memory);
    } else {
        pthread_t *ids = calloc(threads, sizeof *ids);
        for (uint64_t t = 0; t < threads; t++)
            pthread_create(&ids[t], 0, work, memory + t * words);
        for (uint64_t t = 0; t < threads; t++) {
            void *result;
            pthread_join(ids[t], &result);
            sum += (uint64_t)result;
        }
    }
    printf("%llu\n", (unsigned long long)sum);
}
