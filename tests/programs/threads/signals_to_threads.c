/* Signals sent to threads, computing and blocked ones; each handler counts for its own thread.
 *
 * test: 20
 * soak: 2000
 */
#include "threads.h"

enum { COUNT = 3 };
static long rounds;
static _Thread_local volatile sig_atomic_t *caught;
static volatile sig_atomic_t counts[COUNT];
static atomic_int ready, stop;

static void handle(int signal)
{
    (void)signal;
    if (caught)
        ++*caught;
}

static void *run(void *number)
{
    volatile unsigned long n = 0;
    caught = &counts[(long)number];
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&stop)) {
        if ((long)number == 0)
            usleep(1000);
        else if (++n % 1000 == 0)
            usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 10);
    pthread_t threads[COUNT];
    struct sigaction action = { .sa_handler = handle };
    sigaction(SIGUSR1, &action, NULL);
    for (long i = 0; i < COUNT; i++)
        ENSURE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    while (atomic_load(&ready) < COUNT)
        sched_yield();
    for (long round = 1; round <= rounds; round++) {
        for (int i = 0; i < COUNT; i++) {
            pthread_kill(threads[i], SIGUSR1);
            while (counts[i] < round)
                usleep(100);
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        printf("%d\n", counts[i]);
    }
}
