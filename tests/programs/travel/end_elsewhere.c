// A child is ended by a signal that its parent sends; then a thread of the parent's aborts while another one computes.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *compute(void *unused)
{
    for (volatile unsigned long n = 0;; n++)
        ;
    return unused;
}

static void *fail(void *unused)
{
    usleep(20000);
    abort();
    return unused;
}

int main(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, fail, NULL);
    pthread_create(&threads[1], NULL, compute, NULL);
    pthread_join(threads[0], NULL);
    return 0;
}
