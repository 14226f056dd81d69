// A handler jumps out of the function that waits for a lock: the thread waits for it no more.
// flags: -D_GNU_SOURCE
// cycle: first, second
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include "waits_for.h"

pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static atomic_int thread, last, has_jumped;
static sigjmp_buf before;

static void handler(int number)
{
    (void)number;
    siglongjmp(before, 1);
}

static void *jumps(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&first); /* HOLDS */
    thread = gettid();
    if (!sigsetjmp(before, 1))
        pthread_mutex_lock(&second); /* WAITS */
    has_jumped = 1;
    for (;;)
        pause();
    return 0;
}

static void *waits(void *arg)
{
    (void)arg;
    last = gettid();
    pthread_mutex_lock(&second); /* HOLDS */
    pthread_mutex_lock(&first);  /* WAITS */
    return 0;
}

int main(void)
{
    pthread_t made, other;
    signal(SIGUSR1, handler);
    pthread_mutex_lock(&second);
    pthread_create(&made, 0, jumps, 0);
    wait_until_it_waits_for(&thread, &second);
    pthread_kill(made, SIGUSR1);
    while (!has_jumped)
        usleep(1000);
    pthread_mutex_unlock(&second);
    pthread_create(&other, 0, waits, 0);
    wait_until_it_waits_for(&last, &first);
    _exit(0);
}
