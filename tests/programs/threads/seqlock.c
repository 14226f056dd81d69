/* A sequence lock: readers take a copy and try again if a writer was at it.
 *
 * test: 20000
 * soak: 500000
 */
#include "threads.h"

static long rounds;
static atomic_ulong sequence, a, b, c;
static atomic_int done;

static void *run(void *number)
{
    unsigned turns = 0;
    if (!number) {
        for (unsigned long round = 1; round <= (unsigned long)rounds; round++) {
            atomic_store_explicit(&sequence, 2 * round - 1, memory_order_relaxed);
            atomic_thread_fence(memory_order_release);
            atomic_store_explicit(&a, round, memory_order_relaxed);
            atomic_store_explicit(&b, 2 * round, memory_order_relaxed);
            atomic_store_explicit(&c, 3 * round, memory_order_relaxed);
            atomic_store_explicit(&sequence, 2 * round, memory_order_release);
        }
        atomic_store(&done, 1);
        return NULL;
    }
    while (!atomic_load(&done)) {
        unsigned long before = atomic_load_explicit(&sequence, memory_order_acquire);
        unsigned long x = atomic_load_explicit(&a, memory_order_relaxed);
        unsigned long y = atomic_load_explicit(&b, memory_order_relaxed);
        unsigned long z = atomic_load_explicit(&c, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && atomic_load_explicit(&sequence, memory_order_relaxed) == before)
            ENSURE(y == 2 * x && z == 3 * x);
        relax(&turns);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(3, run);
    puts("ok");
}
