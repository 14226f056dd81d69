/* Each thread counts in a word of its own; all words are in one cache line.
 *
 * test: 20000
 * soak: 1000000
 */
#include "threads.h"

static long rounds;
static volatile long counters[4] __attribute__((aligned(64)));

static void *run(void *number)
{
    for (long round = 0; round < rounds; round++)
        counters[(long)number]++;
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads((int)argument(argc, argv, 2, 4), run);
    for (int i = 0; i < 4; i++)
        printf("%ld\n", counters[i]);
}
