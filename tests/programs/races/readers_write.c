// Who has a lock for reading writes.
// race: hits
// benign: counter
#include "races.h"

int hits;
pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *look(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_rwlock_rdlock(&lock);
        hits++; /* RACE */
        pthread_rwlock_unlock(&lock);
    }
    return unused;
}

int main(void)
{
    run_two(look, look, NULL);
    return 0;
}
