// The first process of a process id namespace, which has threads, makes the first one of a nested one: both have the same id. With an argument, it lends its
// memory to that one, as posix_spawn does.
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int released[2];

static void *tick(void *unused)
{
    char byte;
    return read(released[0], &byte, 1) == 1 && write(1, "tick\n", 5) == 5 ? unused : &released;
}

static int first(int spawns)
{
    pthread_t threads[3];
    for (int n = 0; n < 3; n++)
        pthread_create(&threads[n], NULL, tick, NULL);
    if (unshare(CLONE_NEWPID))
        return 6;
    pid_t child;
    int status;
    char *arguments[] = {"/bin/echo", "hello", NULL};
    if (spawns) {
        if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ))
            return 7;
    } else if ((child = fork()) == 0) {
        _exit(getpid() == 1 ? 3 : 4);
    }
    waitpid(child, &status, 0);
    printf("process %d made process %d, which ended with %x\n", getpid(), child, status);
    fflush(stdout);
    if (write(released[1], "abc", 3) != 3)
        return 8;
    for (int n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    puts("all ticked");
    return 5;
}

int main(int count, char **arguments)
{
    int status;
    // A user that is not root needs a user namespace for it.
    if (pipe(released) || (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)))
        return 77;
    pid_t child = fork();
    if (child == 0)
        exit(first(count > 1));
    waitpid(child, &status, 0);
    printf("%x\n", status);
    return 0;
}
