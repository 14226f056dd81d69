// Mutexes, trylock, read-write locks and spinlocks, used as one should.
#include "races.h"

long by_mutex, by_try, by_rwlock, by_spin;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, tried = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_spinlock_t spin;

/* In a call of its own: what it finds has nothing to do with what is written afterwards. */
static __attribute__((noinline)) long looked(void)
{
    pthread_rwlock_rdlock(&rwlock);
    long found = by_rwlock;
    pthread_rwlock_unlock(&rwlock);
    return found;
}

static void *work(void *unused)
{
    long sum = 0;
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&mutex);
        by_mutex++;
        pthread_mutex_unlock(&mutex);
        while (pthread_mutex_trylock(&tried))
            usleep(100);
        by_try++;
        pthread_mutex_unlock(&tried);
        sum += looked();
        pthread_rwlock_wrlock(&rwlock);
        by_rwlock++;
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spin);
        by_spin++;
        pthread_spin_unlock(&spin);
    }
    return sum < 0 ? &by_mutex : unused;
}

int main(void)
{
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    run_two(work, work, NULL);
    return by_mutex != 100 || by_try != 100 || by_rwlock != 100 || by_spin != 100;
}
