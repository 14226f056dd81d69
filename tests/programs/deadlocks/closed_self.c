// A function that locks calls another one that locks the same.
// deadlock: lock
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void inner(void)
{
    pthread_mutex_lock(&lock); /* WAITS */
    pthread_mutex_unlock(&lock);
}

int main(void)
{
    alarm(2);
    pthread_mutex_lock(&lock); /* HOLDS */
    inner();
    pthread_mutex_unlock(&lock);
    return 0;
}
