// A deadlock: two threads take two locks in opposite orders.
#include "rare.h"

pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
int moved;

static void *there(void *unused)
{
    work(2000);
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&other);
    moved++;
    pthread_mutex_unlock(&other);
    pthread_mutex_unlock(&one);
    return unused;
}

static void *back(void *unused)
{
    work(2000);
    pthread_mutex_lock(&other);
    pthread_mutex_lock(&one);
    moved--;
    pthread_mutex_unlock(&one);
    pthread_mutex_unlock(&other);
    return unused;
}

int main(void)
{
    limit_time();
    run_two(there, back);
    return 0;
}
