/* A reader-writer lock: readers see whole states only.
 *
 * test: 2000
 * soak: 50000
 */
#include "threads.h"

static long rounds, state[16];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *run(void *number)
{
    for (long round = 0; round < rounds; round++) {
        if ((long)number == 0) {
            pthread_rwlock_wrlock(&lock);
            for (int i = 0; i < 16; i++)
                state[i]++;
            pthread_rwlock_unlock(&lock);
        } else {
            pthread_rwlock_rdlock(&lock);
            for (int i = 1; i < 16; i++)
                ENSURE(state[i] == state[0]);
            pthread_rwlock_unlock(&lock);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(4, run);
    printf("%ld\n", state[7]);
}
