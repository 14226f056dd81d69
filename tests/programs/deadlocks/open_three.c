// Three philosophers, of whom each eats alone: the forks go around in a circle.
// cycle: forks[0], forks[1], forks[2]
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

pthread_mutex_t forks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
int turns[3][2];

static void *eat(void *number)
{
    intptr_t own = (intptr_t)number;
    char byte;
    if (own > 0 && read(turns[own - 1][0], &byte, 1) != 1)
        return NULL;
    pthread_mutex_lock(&forks[own]); /* HOLDS */
    pthread_mutex_lock(&forks[(own + 1) % 3]); /* WAITS */
    pthread_mutex_unlock(&forks[(own + 1) % 3]);
    pthread_mutex_unlock(&forks[own]);
    return write(turns[own][1], "", 1) == 1 ? NULL : number;
}

int main(void)
{
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        if (pipe(turns[i]))
            return 1;
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, eat, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
