// The log begins when threads wait: for conditions, for a lock, for the end of another one. Threads that begin later have stacks that others had.
// race: racy
// recorded: --keep 2 --interval 50000
// recorded: --light --keep 1s
#include "races.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER, none = PTHREAD_COND_INITIALIZER, gone = PTHREAD_COND_INITIALIZER;
static long queue[4], queued, sum, running;
static int done;
long racy;
#define ROUNDS 8000L

static void *consumer(void *own)
{
    long *count = own;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (queued == 0 && !done) pthread_cond_wait(&some, &lock);
        if (queued == 0) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        sum += queue[--queued];
        ++*count;
        pthread_cond_signal(&none);
        pthread_mutex_unlock(&lock);
        racy++; /* RACE */
        usleep(400);
    }
}

static void *shortly(void *arg)
{
    volatile long own[64];
    for (int i = 0; i < 64; i++) own[i] = i + (long)arg;
    pthread_mutex_lock(&lock);
    sum += own[5];
    running--;
    pthread_cond_signal(&gone);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *producer(void *rounds)
{
    for (long i = 0; i < (long)rounds; i++) {
        pthread_mutex_lock(&lock);
        while (queued == 4) pthread_cond_wait(&none, &lock);
        queue[queued++] = i;
        pthread_cond_signal(&some);
        pthread_mutex_unlock(&lock);
        if (i % 50 == 0) {
            pthread_t thread;
            pthread_mutex_lock(&lock);
            while (running > 0) pthread_cond_wait(&gone, &lock);
            running++;
            pthread_mutex_unlock(&lock);
            pthread_create(&thread, NULL, shortly, (void *)i);
            pthread_detach(thread);
        }
        usleep(300);
    }
    pthread_mutex_lock(&lock);
    while (running > 0) pthread_cond_wait(&gone, &lock);
    done = 1;
    pthread_cond_broadcast(&some);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void)
{
    long counts[3] = {0};
    pthread_t threads[3], maker;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, consumer, &counts[i]);
    pthread_create(&maker, NULL, producer, (void *)ROUNDS);
    pthread_join(maker, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("%ld of %ld\n", counts[0] + counts[1] + counts[2], ROUNDS);
}
