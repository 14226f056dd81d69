/* Store buffering: each thread stores to its own word and loads the other's. x86 lets both loads see the old values; the
 * number of times differs from run to run, and is only printed where there is a second argument. With a fence in between,
 * it must be none.
 *
 * test: 2000
 * soak: 1000000
 */
#include "threads.h"

static long rounds, both_old;
static struct { atomic_int value; char apart[60]; } x, y;
static int seen_x, seen_y;
static atomic_long arrived;

static void *run(void *number)
{
    atomic_int *mine = number ? &y.value : &x.value, *other = number ? &x.value : &y.value;
    int *seen = number ? &seen_y : &seen_x;
    for (long round = 0; round < rounds; round++) {
        atomic_store_explicit(mine, 1, memory_order_relaxed);
        if (round % 2)
            atomic_thread_fence(memory_order_seq_cst);
        *seen = atomic_load_explicit(other, memory_order_relaxed);
        meet(&arrived, 2, 2 * round);
        if (!number) {
            ENSURE(!(round % 2) || seen_x || seen_y);
            both_old += !seen_x && !seen_y;
            atomic_store_explicit(&x.value, 0, memory_order_relaxed);
            atomic_store_explicit(&y.value, 0, memory_order_relaxed);
        }
        meet(&arrived, 2, 2 * round + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    if (argc > 2)
        printf("%ld of %ld\n", both_old, (rounds + 1) / 2);
    else
        puts("ok");
}
