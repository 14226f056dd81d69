// A wakeup is lost: the check comes before the lock, so that the signal may come between the check and the wait.
#include "rare.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
volatile int ready;

static void *wait_for_it(void *unused)
{
    work(2000);
    if (!ready) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *tell(void *unused)
{
    work(20000);
    pthread_mutex_lock(&lock);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    limit_time();
    run_two(wait_for_it, tell);
    return 0;
}
