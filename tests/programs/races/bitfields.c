// Two bit fields of one byte have locks of their own.
// race: flags
#include "races.h"

struct {
    unsigned a : 4, b : 4;
} flags;
pthread_mutex_t lock_a = PTHREAD_MUTEX_INITIALIZER, lock_b = PTHREAD_MUTEX_INITIALIZER;

static void *set_a(void *unused)
{
    pthread_mutex_lock(&lock_a);
    flags.a = 3; /* RACE */
    pthread_mutex_unlock(&lock_a);
    return unused;
}

static void *set_b(void *unused)
{
    pthread_mutex_lock(&lock_b);
    flags.b = 5; /* RACE */
    pthread_mutex_unlock(&lock_b);
    return unused;
}

int main(void)
{
    run_two(set_a, set_b, NULL);
    return 0;
}
