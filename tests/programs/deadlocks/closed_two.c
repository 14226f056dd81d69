// Two threads hold one mutex each, and want the other one.
// deadlock: first, second
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t both;

static void *one(void *unused)
{
    pthread_mutex_lock(&first); /* HOLDS */
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second); /* WAITS */
    return unused;
}

static void *other(void *unused)
{
    pthread_mutex_lock(&second); /* HOLDS */
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first); /* WAITS */
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    alarm(2);
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    return 0;
}
