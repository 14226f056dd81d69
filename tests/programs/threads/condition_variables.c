/* A bounded buffer with a mutex and two condition variables.
 *
 * test: 2000
 * soak: 50000
 */
#include "threads.h"

enum { ROOM = 4 };
static long rounds, buffer[ROOM], in, out, sum;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;

static void *run(void *number)
{
    for (long round = 1; round <= rounds; round++) {
        pthread_mutex_lock(&mutex);
        if ((long)number % 2) {
            while (in == out)
                pthread_cond_wait(&not_empty, &mutex);
            sum += buffer[out++ % ROOM];
            pthread_cond_signal(&not_full);
        } else {
            while (in - out == ROOM)
                pthread_cond_wait(&not_full, &mutex);
            buffer[in++ % ROOM] = round;
            pthread_cond_signal(&not_empty);
        }
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(4, run);
    ENSURE(sum == rounds * (rounds + 1));
    printf("%ld\n", sum);
}
