/* Threads that are cancelled: at a cancellation point, and while blocked; with cleanup handlers.
 *
 * test: 5
 * soak: 500
 */
#include "threads.h"

static atomic_int started;
static atomic_long cleaned;
static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void clean(void *amount)
{
    atomic_fetch_add(&cleaned, (long)amount);
}

static void unlock(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

static void *run(void *number)
{
    pthread_cleanup_push(clean, (void *)((long)number + 1));
    atomic_fetch_add(&started, 1);
    if ((long)number == 0) {
        for (;;) {
            pthread_testcancel();
            usleep(100);
        }
    }
    if ((long)number == 2) {
        pthread_mutex_lock(&never);
        pthread_cleanup_push(unlock, &never);
        for (;;)
            pthread_cond_wait(&condition, &never);
        pthread_cleanup_pop(0);
    }
    pause();
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 10);
    for (long round = 0; round < rounds; round++) {
        pthread_t threads[4];
        atomic_store(&started, 0);
        for (long i = 0; i < 4; i++)
            ENSURE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
        while (atomic_load(&started) < 4)
            usleep(100);
        for (int i = 0; i < 4; i++) {
            void *result;
            ENSURE(pthread_cancel(threads[i]) == 0);
            ENSURE(pthread_join(threads[i], &result) == 0 && result == PTHREAD_CANCELED);
        }
    }
    printf("%ld\n", cleaned);
}
