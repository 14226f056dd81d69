// Orders that no deadlock can come of: a lock around both, locks that are tried, one thread behind the end of another, readers.
#define _GNU_SOURCE
#include <pthread.h>

pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER, around = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t c = PTHREAD_MUTEX_INITIALIZER, d = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_rwlock_t e = PTHREAD_RWLOCK_INITIALIZER, f = PTHREAD_RWLOCK_INITIALIZER;

static void both(pthread_mutex_t *first, pthread_mutex_t *second)
{
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void reading(pthread_rwlock_t *first, pthread_rwlock_t *second)
{
    pthread_rwlock_rdlock(first);
    pthread_rwlock_rdlock(second);
    pthread_rwlock_unlock(second);
    pthread_rwlock_unlock(first);
}

static void *one(void *unused)
{
    pthread_mutex_lock(&around);
    both(&a, &b);
    pthread_mutex_unlock(&around);
    both(&recursive, &recursive);
    reading(&e, &f);
    return unused;
}

static void *other(void *unused)
{
    pthread_mutex_lock(&around);
    both(&b, &a);
    pthread_mutex_unlock(&around);
    reading(&f, &e);
    pthread_mutex_lock(&d);
    if (pthread_mutex_trylock(&c) == 0)
        pthread_mutex_unlock(&c);
    pthread_mutex_unlock(&d);
    return unused;
}

static void *early(void *unused)
{
    both(&c, &d);
    return unused;
}

static void *late(void *unused)
{
    both(&d, &c);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, early, NULL);
    pthread_join(threads[0], NULL);
    pthread_create(&threads[0], NULL, late, NULL);
    pthread_join(threads[0], NULL);
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
