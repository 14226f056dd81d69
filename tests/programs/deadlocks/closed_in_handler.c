// What a thread waits for is what the handler wants that interrupted it where it waited for something else.
// flags: -D_GNU_SOURCE
// deadlock: first, third
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include "waits_for.h"

pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, third = PTHREAD_MUTEX_INITIALIZER;
static atomic_int thread;

static void handler(int number)
{
    (void)number;
    pthread_mutex_lock(&third); /* WAITS */
}

static void *other(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&first); /* HOLDS */
    thread = gettid();
    pthread_mutex_lock(&second);
    return 0;
}

int main(void)
{
    pthread_t made;
    signal(SIGUSR1, handler);
    pthread_mutex_lock(&second);
    pthread_mutex_lock(&third); /* HOLDS */
    pthread_create(&made, 0, other, 0);
    wait_until_it_waits_for(&thread, &second);
    pthread_kill(made, SIGUSR1);
    wait_until_it_waits_for(&thread, &third);
    pthread_mutex_unlock(&second);
    alarm(2);
    pthread_mutex_lock(&first); /* WAITS */
    return 0;
}
