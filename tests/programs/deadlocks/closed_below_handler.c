// A thread waits for a lock all the same where a handler came in between, which took another lock and gave it back.
// flags: -D_GNU_SOURCE
// deadlock: first, second
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include "waits_for.h"

pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, third = PTHREAD_MUTEX_INITIALIZER;
static atomic_int thread, is_handled;

static void handler(int number)
{
    (void)number;
    pthread_mutex_lock(&third);
    pthread_mutex_unlock(&third);
    is_handled = 1;
}

static void *other(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&first); /* HOLDS */
    thread = gettid();
    pthread_mutex_lock(&second); /* WAITS */
    return 0;
}

int main(void)
{
    pthread_t made;
    signal(SIGUSR1, handler);
    pthread_mutex_lock(&second); /* HOLDS */
    pthread_create(&made, 0, other, 0);
    wait_until_it_waits_for(&thread, &second);
    pthread_kill(made, SIGUSR1);
    while (!is_handled)
        usleep(1000);
    alarm(2);
    pthread_mutex_lock(&first); /* WAITS */
    return 0;
}
