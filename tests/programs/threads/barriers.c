/* Barriers: each round, every thread reads what the others wrote in the round before.
 *
 * test: 300
 * soak: 10000
 */
#include "threads.h"

enum { COUNT = 4 };
static long rounds, values[2][COUNT];
static pthread_barrier_t barrier;

static void *run(void *number)
{
    long n = (long)number;
    for (long round = 0; round < rounds; round++) {
        long sum = 0;
        for (int i = 0; i < COUNT; i++)
            sum += values[round % 2][i];
        values[(round + 1) % 2][n] = sum % 1000 + n;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    pthread_barrier_init(&barrier, NULL, COUNT);
    run_threads(COUNT, run);
    for (int i = 0; i < COUNT; i++)
        printf("%ld\n", values[rounds % 2][i]);
}
