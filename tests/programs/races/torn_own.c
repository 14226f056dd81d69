// A thread does not find what it has written itself.
// torn: WWR status
#include "races.h"

int status;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *own(void *unused)
{
    pthread_mutex_lock(&lock);
    status = 1; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(0);
    wait_for(1);
    pthread_mutex_lock(&lock);
    int is_own = status == 1; /* TORN */
    pthread_mutex_unlock(&lock);
    return is_own ? &status : unused;
}

static void *other(void *unused)
{
    wait_for(0);
    pthread_mutex_lock(&lock);
    status = 2; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(1);
    return unused;
}

int main(void)
{
    make_turns();
    run_two(own, other, NULL);
    return 0;
}
