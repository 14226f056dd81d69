// A child is forked while another thread holds a lock, which nobody gives back in the child.
// of: fork
// symptom: hang
// says: waits for busy_lock
// says: which held it when it forked this one, where the thread is not
// says: in worker at
// among: 1
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t taken, over;
static void *worker(void *unused) {
    pthread_mutex_lock(&busy_lock);
    sem_post(&taken);
    sem_wait(&over);
    pthread_mutex_unlock(&busy_lock);
    return NULL;
}
int main(void) {
    pthread_t thread;
    sem_init(&taken, 0, 0);
    sem_init(&over, 0, 0);
    pthread_create(&thread, NULL, worker, NULL);
    sem_wait(&taken);
    pid_t child = fork();
    if (child == 0) {
        alarm(1);
        pthread_mutex_lock(&busy_lock); /* BUG */
        pthread_mutex_unlock(&busy_lock);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    sem_post(&over);
    pthread_join(thread, NULL);
    return 0;
}
