/* Thread-local storage, of the compiler's and of pthread's kind, with destructors.
 *
 * test: 200
 * soak: 5000
 */
#include "threads.h"

static _Thread_local long mine = 7;
static _Thread_local char text[200];
static pthread_key_t key;
static long rounds;
static atomic_long sum, destroyed;

static void destroy(void *value)
{
    atomic_fetch_add(&destroyed, *(long *)value);
    free(value);
}

static void *run(void *number)
{
    long *value = malloc(sizeof *value);
    ENSURE(mine == 7);
    *value = (long)number;
    pthread_setspecific(key, value);
    for (long round = 0; round < rounds; round++) {
        mine += (long)number;
        snprintf(text, sizeof text, "%ld", mine);
        ENSURE(atol(text) == mine && *(long *)pthread_getspecific(key) == (long)number);
    }
    atomic_fetch_add(&sum, mine);
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 100);
    pthread_key_create(&key, destroy);
    run_threads(5, run);
    printf("%ld %ld %ld\n", sum, destroyed, mine);
}
