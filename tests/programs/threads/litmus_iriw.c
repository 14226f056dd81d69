/* Independent reads of independent writes: two readers agree which of two writes came first.
 *
 * test: 300
 * soak: 300000
 */
#include "threads.h"

static long rounds;
static struct { atomic_int value; char apart[60]; } x, y;
static int seen[2][2];
static atomic_long arrived;

static void *run(void *number)
{
    long n = (long)number;
    for (long round = 0; round < rounds; round++) {
        if (n < 2) {
            atomic_store_explicit(n ? &y.value : &x.value, 1, memory_order_relaxed);
        } else {
            int *mine = seen[n - 2];
            mine[0] = atomic_load_explicit(n == 2 ? &x.value : &y.value, memory_order_relaxed);
            mine[1] = atomic_load_explicit(n == 2 ? &y.value : &x.value, memory_order_relaxed);
        }
        meet(&arrived, 4, 2 * round);
        if (!number) {
            /* One reader: x, but not yet y. The other: y, but not yet x. */
            ENSURE(!(seen[0][0] && !seen[0][1] && seen[1][0] && !seen[1][1]));
            atomic_store_explicit(&x.value, 0, memory_order_relaxed);
            atomic_store_explicit(&y.value, 0, memory_order_relaxed);
        }
        meet(&arrived, 4, 2 * round + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(4, run);
    puts("ok");
}
