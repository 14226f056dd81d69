/* Two threads that begin late and are over early. */
#include <pthread.h>

static volatile long sums[2];

static void *work(void *which)
{
    for (long i = 0; i < 300000; i++)
        sums[(long)which] += i;
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    for (volatile int i = 0; i < 100000; i++)
        ;
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    for (volatile int i = 0; i < 100000; i++)
        ;
    return 0;
}
