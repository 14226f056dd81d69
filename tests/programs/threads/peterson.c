/* Peterson's mutual exclusion of two threads, with fences.
 *
 * test: 20000
 * soak: 500000
 */
#include "threads.h"

static long rounds, counter;
static atomic_int interested[2], turn;

static void *run(void *number)
{
    int me = (int)(long)number, other = 1 - me;
    unsigned turns = 0;
    for (long round = 0; round < rounds; round++) {
        atomic_store_explicit(&interested[me], 1, memory_order_relaxed);
        atomic_store_explicit(&turn, other, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        while (atomic_load_explicit(&interested[other], memory_order_acquire)
               && atomic_load_explicit(&turn, memory_order_acquire) == other)
            relax(&turns);
        counter++;
        atomic_store_explicit(&interested[me], 0, memory_order_release);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    ENSURE(counter == 2 * rounds);
    printf("%ld\n", counter);
}
