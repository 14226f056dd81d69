// The end of the first process of a process id namespace kills all others there, with all their threads.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long counter;

static void *compute(void *unused)
{
    for (;;)
        counter++;
    return unused;
}

static void *sleep_on(void *unused)
{
    pause();
    return unused;
}

int main(void)
{
    int ends[2], status;
    char byte;
    // A user that is not root needs a user namespace for it.
    if (pipe(ends) || (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)))
        return 77;
    pid_t first = fork();
    if (first == 0) {
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, compute, NULL);
            pthread_create(&thread, NULL, sleep_on, NULL);
            while (!counter)
                ;
            write(ends[1], "x", 1);
            pause();
            _exit(9);
        }
        _exit(read(ends[0], &byte, 1) == 1 ? 5 : 6);
    }
    waitpid(first, &status, 0);
    printf("%x\n", status);
    return 0;
}
