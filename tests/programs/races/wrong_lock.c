// Each thread has a lock, but not the same one.
// race: total
#include "races.h"

long total;
pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;

static void *add(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&one);
        total += i; /* RACE */
        pthread_mutex_unlock(&one);
    }
    return unused;
}

static void *take(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&other);
        total -= i; /* RACE */
        pthread_mutex_unlock(&other);
    }
    return unused;
}

int main(void)
{
    run_two(add, take, NULL);
    return 0;
}
