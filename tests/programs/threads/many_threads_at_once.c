/* Many threads that all exist at the same time.
 *
 * test: 100
 * soak: 500
 */
#include "threads.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t everyone = PTHREAD_COND_INITIALIZER;
static long count, here, sum;

static void *run(void *number)
{
    pthread_mutex_lock(&mutex);
    sum += (long)number;
    if (++here == count)
        pthread_cond_broadcast(&everyone);
    while (here < count)
        pthread_cond_wait(&everyone, &mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(int argc, char **argv)
{
    count = argument(argc, argv, 1, 100);
    run_threads((int)count, run);
    printf("%ld\n", sum);
}
