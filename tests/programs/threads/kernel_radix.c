/* Radix sort in the style of SPLASH: each thread counts the digits of its keys, all read all counts, and each puts its
 * keys where they belong, among those of the others.
 *
 * test: 3 1000
 * soak: 4 50000
 */
#include "threads.h"

enum { DIGITS = 256 };
static long threads, size;
static uint32_t *keys, *sorted;
static long (*counts)[DIGITS];
static pthread_barrier_t barrier;

static void *run(void *number)
{
    long n = (long)number, first = size * n / threads, last = size * (n + 1) / threads;
    uint32_t *from = keys, *to = sorted;
    for (int shift = 0; shift < 32; shift += 8) {
        memset(counts[n], 0, sizeof counts[n]);
        for (long i = first; i < last; i++)
            counts[n][from[i] >> shift & (DIGITS - 1)]++;
        pthread_barrier_wait(&barrier);
        long place[DIGITS], before = 0;
        for (int digit = 0; digit < DIGITS; digit++)
            for (long thread = 0; thread < threads; thread++) {
                if (thread == n)
                    place[digit] = before;
                before += counts[thread][digit];
            }
        for (long i = first; i < last; i++)
            to[place[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        pthread_barrier_wait(&barrier);
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = argument(argc, argv, 1, 2);
    size = argument(argc, argv, 2, 1000);
    keys = calloc((size_t)size, sizeof *keys);
    sorted = calloc((size_t)size, sizeof *sorted);
    counts = calloc((size_t)threads, sizeof *counts);
    uint32_t sum = 0;
    for (long i = 0; i < size; i++)
        sum += keys[i] = (uint32_t)(i + 1) * 2654435761u;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    run_threads((int)threads, run);
    for (long i = 0; i < size; i++) {
        ENSURE(i == 0 || keys[i - 1] <= keys[i]);
        sum -= keys[i];
    }
    ENSURE(sum == 0);
    puts("ok");
}
