/* Message passing: who sees the flag sees the data.
 *
 * test: 2000
 * soak: 1000000
 */
#include "threads.h"

static long rounds;
static long data;
static atomic_long flag, taken;

static void *run(void *number)
{
    unsigned turns = 0;
    for (long round = 1; round <= rounds; round++) {
        if (number) {
            while (atomic_load_explicit(&flag, memory_order_acquire) != round)
                relax(&turns);
            ENSURE(data == round * 3);
            atomic_store_explicit(&taken, round, memory_order_release);
        } else {
            data = round * 3;
            atomic_store_explicit(&flag, round, memory_order_release);
            while (atomic_load_explicit(&taken, memory_order_acquire) != round)
                relax(&turns);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    puts("ok");
}
