// Another thread reads what is there for a moment only.
// torn: WRW amount
#include "races.h"

int amount = 5;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *changes(void *unused)
{
    pthread_mutex_lock(&lock);
    amount = -1; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(0);
    wait_for(1);
    pthread_mutex_lock(&lock);
    amount = 6; /* TORN */
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *reads(void *unused)
{
    wait_for(0);
    pthread_mutex_lock(&lock);
    int found = amount; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(1);
    return found < 0 ? &amount : unused;
}

int main(void)
{
    make_turns();
    run_two(changes, reads, NULL);
    return 0;
}
