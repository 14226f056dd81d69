/* Load buffering: each thread loads the other's word and then stores to its own. Both cannot see what the other stores
 * later.
 *
 * test: 2000
 * soak: 1000000
 */
#include "threads.h"

static long rounds;
static atomic_int x, y;
static int seen_x, seen_y;
static atomic_long arrived;

static void *run(void *number)
{
    atomic_int *mine = number ? &y : &x, *other = number ? &x : &y;
    int *seen = number ? &seen_x : &seen_y;
    for (long round = 0; round < rounds; round++) {
        *seen = atomic_load_explicit(other, memory_order_relaxed);
        atomic_store_explicit(mine, 1, memory_order_relaxed);
        meet(&arrived, 2, 2 * round);
        if (!number) {
            ENSURE(!(seen_x && seen_y));
            atomic_store_explicit(&x, 0, memory_order_relaxed);
            atomic_store_explicit(&y, 0, memory_order_relaxed);
        }
        meet(&arrived, 2, 2 * round + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    puts("ok");
}
