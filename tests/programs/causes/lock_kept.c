// A thread ends without giving a lock back, for which another one then waits.
// symptom: hang
// says: waits for kept_lock to the end
// says: that thread has ended without giving it back
// among: 2
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static void *worker(void *unused) {
    pthread_mutex_lock(&kept_lock); /* BUG */
    return NULL;
}
int main(void) {
    alarm(1);
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&kept_lock);
    return 0;
}
