/* Threads end while they hold robust mutexes, which the kernel then gives to others.
 *
 * test: 20
 * soak: 1000
 */
#include "threads.h"
#include <errno.h>

enum { MUTEXES = 5, COUNT = 3 };
static pthread_mutex_t mutexes[MUTEXES];
static pthread_mutexattr_t attributes[2];
static long owned, found_dead;
static atomic_long held;

static void *dies(void *number)
{
    long me = (long)number;
    for (int i = 0; i < MUTEXES; i++)
        if (i % COUNT == me)
            ENSURE(pthread_mutex_lock(&mutexes[i]) == 0);
    atomic_fetch_add(&held, 1);
    /* Somebody waits for some of them. */
    usleep(1000);
    return NULL;
}

static void *waits(void *number)
{
    for (int i = 0; i < MUTEXES; i++) {
        int error = pthread_mutex_lock(&mutexes[i]);
        ENSURE(error == 0 || error == EOWNERDEAD);
        if (error == EOWNERDEAD) {
            found_dead++;
            ENSURE(pthread_mutex_consistent(&mutexes[i]) == 0);
        }
        owned++;
        ENSURE(pthread_mutex_unlock(&mutexes[i]) == 0);
    }
    return number;
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1);
    for (int inherits = 0; inherits < 2; inherits++) {
        pthread_mutexattr_init(&attributes[inherits]);
        ENSURE(pthread_mutexattr_setrobust(&attributes[inherits], PTHREAD_MUTEX_ROBUST) == 0);
        if (inherits)
            ENSURE(pthread_mutexattr_setprotocol(&attributes[inherits], PTHREAD_PRIO_INHERIT) == 0);
    }
    for (int i = 0; i < MUTEXES; i++)
        ENSURE(pthread_mutex_init(&mutexes[i], &attributes[i % 2]) == 0);
    for (long round = 0; round < rounds; round++) {
        pthread_t dying[COUNT], waiting;
        for (long i = 0; i < COUNT; i++)
            ENSURE(pthread_create(&dying[i], NULL, dies, (void *)i) == 0);
        unsigned turns = 0;
        while (atomic_load(&held) < COUNT * (round + 1))
            relax(&turns);
        ENSURE(pthread_create(&waiting, NULL, waits, NULL) == 0);
        ENSURE(pthread_join(waiting, NULL) == 0);
        for (int i = 0; i < COUNT; i++)
            ENSURE(pthread_join(dying[i], NULL) == 0);
    }
    printf("%ld %ld\n", owned, found_dead);
}
