/* Threads that begin and end all the time.
 *
 * test: 300
 * soak: 10000
 */
#include "threads.h"

static long sum;

static void *run(void *number)
{
    /* Whoever creates it waits for it: there is no race. */
    sum += (long)number;
    return number;
}

int main(int argc, char **argv)
{
    long count = argument(argc, argv, 1, 100);
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        void *result;
        ENSURE(pthread_create(&thread, NULL, run, (void *)i) == 0);
        ENSURE(pthread_join(thread, &result) == 0 && result == (void *)i);
    }
    printf("%ld\n", sum);
}
