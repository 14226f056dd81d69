// Conditions, barriers, semaphores and pthread_once, used as one should.
#include "races.h"

int queue, taken, phases[2], given, once_done;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
pthread_barrier_t barrier;
sem_t semaphore;
pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void)
{
    once_done = 1;
}

static void *first(void *unused)
{
    pthread_once(&once, initialise);
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        queue++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    phases[0] = once_done;
    pthread_barrier_wait(&barrier);
    given = phases[1];
    sem_post(&semaphore);
    return unused;
}

static void *second(void *unused)
{
    pthread_once(&once, initialise);
    while (taken < 20) {
        pthread_mutex_lock(&lock);
        while (queue == 0)
            pthread_cond_wait(&filled, &lock);
        queue--;
        taken++;
        pthread_mutex_unlock(&lock);
    }
    phases[1] = once_done;
    pthread_barrier_wait(&barrier);
    int seen = phases[0];
    sem_wait(&semaphore);
    return seen + given == 2 ? unused : &queue;
}

int main(void)
{
    pthread_barrier_init(&barrier, NULL, 2);
    sem_init(&semaphore, 0, 0);
    run_two(first, second, NULL);
    return taken != 20;
}
