// A handler wants a lock that the function holds which it interrupted.
// symptom: hang
// says: a thread waits for itself: a deadlock
// among: 2
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static int count;
static void handler(int number) {
    pthread_mutex_lock(&own_lock); /* BUG */
    count++;
    pthread_mutex_unlock(&own_lock);
}
int main(void) {
    alarm(1);
    signal(SIGUSR1, handler);
    pthread_mutex_lock(&own_lock);
    raise(SIGUSR1);
    pthread_mutex_unlock(&own_lock);
    return 0;
}
