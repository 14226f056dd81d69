/* A thread begins when another one has executed code that nobody had before, and then executes it, too; but nothing orders
 * the two.
 *
 * flags: -Wl,-z,now
 * test: 50
 * soak: 500
 */
#include "threads.h"

/* Alone on its page. */
__attribute__((noinline, aligned(4096))) static long twice(long x)
{
    return 2 * x;
}

static long milliseconds;

static void wait_a_little(long times)
{
    usleep((useconds_t)(times * milliseconds) * 1000);
}

__attribute__((noinline, aligned(4096))) static void *run(void *times)
{
    wait_a_little((long)times);
    long result = twice((long)times);
    /* It must not end before the last one begins. */
    wait_a_little(4 * (long)times);
    return (void *)result;
}

int main(int argc, char **argv)
{
    milliseconds = argument(argc, argv, 1, 50);
    pthread_t first, between, last;
    void *results[3];
    ENSURE(pthread_create(&first, NULL, run, (void *)1) == 0);
    /* The C library links a new thread's data to that of the one before, which would order the first and the last. */
    ENSURE(pthread_create(&between, NULL, run, (void *)8) == 0);
    wait_a_little(2);
    ENSURE(pthread_create(&last, NULL, run, NULL) == 0);
    ENSURE(pthread_join(last, &results[2]) == 0 && pthread_join(between, &results[1]) == 0);
    ENSURE(pthread_join(first, &results[0]) == 0);
    printf("%ld %ld %ld\n", (long)results[0], (long)results[1], (long)results[2]);
}
