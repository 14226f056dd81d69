/* More threads than processors in a queue for a ticket lock.
 *
 * test: 500
 * soak: 10000
 */
#include "threads.h"

static long rounds, counter;
static atomic_ulong next_ticket, now_serving;

static void *run(void *number)
{
    unsigned turns = 0;
    (void)number;
    for (long round = 0; round < rounds; round++) {
        unsigned long ticket = atomic_fetch_add(&next_ticket, 1);
        while (atomic_load_explicit(&now_serving, memory_order_acquire) != ticket)
            relax(&turns);
        counter++;
        atomic_store_explicit(&now_serving, ticket + 1, memory_order_release);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(8, run);
    printf("%ld\n", counter);
}
