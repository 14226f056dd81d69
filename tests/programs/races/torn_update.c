// An account is read and written under a lock, but an update is lost in between.
// torn: RWW balance
#include "races.h"

long balance = 100;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long get(void)
{
    pthread_mutex_lock(&lock);
    long now = balance;
    pthread_mutex_unlock(&lock);
    return now;
}

static void *slow(void *unused)
{
    pthread_mutex_lock(&lock);
    long now = balance; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(0);
    wait_for(1);
    pthread_mutex_lock(&lock);
    balance = now + 10; /* TORN */
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *fast(void *unused)
{
    wait_for(0);
    pthread_mutex_lock(&lock);
    balance = 50; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(1);
    return unused;
}

int main(void)
{
    make_turns();
    run_two(slow, fast, NULL);
    return get() != 110;
}
