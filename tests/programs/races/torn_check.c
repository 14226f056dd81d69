// A pointer is checked under a lock, and used under the lock, but not in one go.
// torn: RWR session
#include "races.h"

int *session;
int value = 3;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *user(void *unused)
{
    pthread_mutex_lock(&lock);
    int is_there = session != NULL; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(0);
    wait_for(1);
    pthread_mutex_lock(&lock);
    int *used = session; /* TORN */
    pthread_mutex_unlock(&lock);
    return is_there && used ? used : unused;
}

static void *closer(void *unused)
{
    wait_for(0);
    pthread_mutex_lock(&lock);
    session = NULL; /* TORN */
    pthread_mutex_unlock(&lock);
    turn(1);
    return unused;
}

int main(void)
{
    make_turns();
    session = &value;
    run_two(user, closer, NULL);
    return 0;
}
