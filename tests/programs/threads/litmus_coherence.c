/* Coherence: a word that only grows never shrinks in anybody's eyes, and two writers' values are seen in one order.
 *
 * test: 20000
 * soak: 1000000
 */
#include "threads.h"

static long rounds;
static atomic_long word, done;

static void *run(void *number)
{
    if (!number) {
        for (long round = 1; round <= rounds; round++)
            atomic_store_explicit(&word, round, memory_order_relaxed);
        atomic_store(&done, 1);
        return NULL;
    }
    long last = 0;
    unsigned turns = 0;
    while (!atomic_load(&done)) {
        long a = atomic_load_explicit(&word, memory_order_relaxed);
        long b = atomic_load_explicit(&word, memory_order_relaxed);
        ENSURE(last <= a && a <= b);
        last = b;
        relax(&turns);
    }
    ENSURE(atomic_load(&word) == rounds);
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(3, run);
    puts("ok");
}
