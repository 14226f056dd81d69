// Two threads take two mutexes in different orders, one after the other by chance.
// cycle: first, second
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
int turns[2];

static void *one(void *unused)
{
    pthread_mutex_lock(&first); /* HOLDS */
    pthread_mutex_lock(&second); /* WAITS */
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
    return write(turns[1], "", 1) == 1 ? unused : &turns;
}

static void *other(void *unused)
{
    char byte;
    if (read(turns[0], &byte, 1) != 1)
        return &turns;
    pthread_mutex_lock(&second); /* HOLDS */
    pthread_mutex_lock(&first); /* WAITS */
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    if (pipe(turns))
        return 1;
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
