/* One thread takes away what another one uses. */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static volatile int *volatile shared;
static volatile int value = 5;

static void *clear(void *arg)
{
    for (int i = 0; i < 1000; i++)
        shared = &value;
    shared = NULL; /* CULPRIT */
    return arg;
}

static void *use(void *arg)
{
    for (;;)
        value += *shared;
    return arg;
}

static void *idle(void *arg)
{
    pause();
    return arg;
}

int main(void)
{
    pthread_t threads[3];
    void *(*const work[3])(void *) = {idle, use, clear};
    shared = &value;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    pthread_join(threads[2], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
