/* Dekker's mutual exclusion of two threads, with fences.
 *
 * test: 20000
 * soak: 500000
 */
#include "threads.h"

static long rounds, counter;
static atomic_int wants[2], turn;

static void *run(void *number)
{
    int me = (int)(long)number, other = 1 - me;
    unsigned turns = 0;
    for (long round = 0; round < rounds; round++) {
        atomic_store_explicit(&wants[me], 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        while (atomic_load_explicit(&wants[other], memory_order_acquire)) {
            if (atomic_load_explicit(&turn, memory_order_acquire) != me) {
                atomic_store_explicit(&wants[me], 0, memory_order_relaxed);
                while (atomic_load_explicit(&turn, memory_order_acquire) != me)
                    relax(&turns);
                atomic_store_explicit(&wants[me], 1, memory_order_relaxed);
                atomic_thread_fence(memory_order_seq_cst);
            }
            relax(&turns);
        }
        counter++;
        atomic_store_explicit(&turn, other, memory_order_relaxed);
        atomic_store_explicit(&wants[me], 0, memory_order_release);
    }
    /* The other one may wait for a turn that I do not take any more. */
    atomic_store(&turn, other);
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    ENSURE(counter == 2 * rounds);
    printf("%ld\n", counter);
}
