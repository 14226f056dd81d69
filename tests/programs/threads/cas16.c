/* Compare and exchange of 16 bytes.
 *
 * flags: -mcx16
 * test: 5000
 * soak: 200000
 */
#include "threads.h"

static long rounds;
static struct { uint64_t low, high; } pair __attribute__((aligned(16)));

static int exchange(uint64_t *low, uint64_t *high, uint64_t new_low, uint64_t new_high)
{
    char done;
    __asm__ volatile("lock cmpxchg16b %1\n\tsete %0"
                     : "=q"(done), "+m"(pair), "+a"(*low), "+d"(*high)
                     : "b"(new_low), "c"(new_high)
                     : "memory", "cc");
    return done;
}

static void *run(void *number)
{
    (void)number;
    for (long round = 0; round < rounds; round++) {
        uint64_t low = 0, high = 0;
        do
            ENSURE(high == 5 * low);
        while (!exchange(&low, &high, low + 1, high + 5));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(3, run);
    printf("%lu %lu\n", pair.low, pair.high);
}
