// Threads are given the address of the loop's variable, which goes on.
// race: i of main
// flags: -O0
#include "races.h"

static void *work(void *number)
{
    return *(int *)number < 3 ? number : NULL; /* RACE */
}

int main(void)
{
    pthread_t threads[2];
    int i;
    for (i = 0; i < 2; i++) /* RACE */
        pthread_create(&threads[i], NULL, work, &i);
    for (int j = 0; j < 2; j++)
        pthread_join(threads[j], NULL);
    return 0;
}
