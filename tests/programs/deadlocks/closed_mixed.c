// Three threads: a reader wants a spinlock, whose holder wants a mutex, whose holder wants to write what is read.
// deadlock: mutex, rwlock, spin
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_spinlock_t spin;
pthread_barrier_t all;

static void *reads(void *unused)
{
    pthread_rwlock_rdlock(&rwlock); /* HOLDS */
    pthread_barrier_wait(&all);
    pthread_spin_lock(&spin); /* WAITS */
    return unused;
}

static void *spins(void *unused)
{
    pthread_spin_lock(&spin); /* HOLDS */
    pthread_barrier_wait(&all);
    pthread_mutex_lock(&mutex); /* WAITS */
    return unused;
}

static void *writes(void *unused)
{
    pthread_mutex_lock(&mutex); /* HOLDS */
    pthread_barrier_wait(&all);
    pthread_rwlock_wrlock(&rwlock); /* WAITS */
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    alarm(2);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_barrier_init(&all, NULL, 3);
    pthread_create(&threads[0], NULL, reads, NULL);
    pthread_create(&threads[1], NULL, spins, NULL);
    pthread_create(&threads[2], NULL, writes, NULL);
    pthread_join(threads[0], NULL);
    return 0;
}
