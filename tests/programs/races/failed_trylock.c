// A thread tries a lock, does not get it, and goes on all the same. That it has tried orders nothing.
// race: shared
#include "races.h"

int shared;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *holds(void *unused)
{
    pthread_mutex_lock(&lock);
    turn(0);
    wait_for(1);
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    shared = 1; /* RACE */
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *tries(void *unused)
{
    wait_for(0);
    shared = 2; /* RACE */
    if (pthread_mutex_trylock(&lock) == 0)
        abort();
    turn(1);
    return unused;
}

int main(void)
{
    make_turns();
    run_two(holds, tries, NULL);
    return 0;
}
