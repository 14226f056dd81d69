/* One lock that all threads want all the time, and a word that it guards.
 *
 * test: 3 1000
 * soak: 4 100000
 */
#include "threads.h"

static long rounds, shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *run(void *number)
{
    (void)number;
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&mutex);
        shared++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = argument(argc, argv, 1, 2);
    rounds = argument(argc, argv, 2, 1000) / threads;
    run_threads((int)threads, run);
    ENSURE(shared == rounds * threads);
    puts("ok");
}
