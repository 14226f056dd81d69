// Children of vfork that SIGKILL kills before they have executed a program: by themselves, from another thread, and from another process.
// The parent forks soon after, also before it has waited for them, and makes threads and more children.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t victim;
static volatile long counter;
static int to_killer[2];

static void *killer(void *unused)
{
    while (!victim)
        usleep(100);
    usleep(5000);
    kill(victim, SIGKILL);
    return unused;
}

// Forked before any child dies; ends with the pipe.
static void other_process(void)
{
    pid_t pid;
    close(to_killer[1]);
    while (read(to_killer[0], &pid, sizeof pid) == sizeof pid) {
        usleep(5000);
        kill(pid, SIGKILL);
    }
    _exit(0);
}

static void die(int how)
{
    pid_t me = getpid();
    switch (how) {
    case 0: kill(me, SIGKILL);
    case 1: victim = me; pause();
    case 2: victim = me; for (;;) counter++;
    case 3: write(to_killer[1], &me, sizeof me); pause();
    case 4: write(to_killer[1], &me, sizeof me); for (;;) counter++;
    case 5: // its own child dies so
        if (vfork() == 0)
            kill(getpid(), SIGKILL);
        wait(NULL);
        _exit(5);
    }
}

static void fork_once(const char *when)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    printf("a fork %s: %x\n", when, status);
}

static void *thread(void *unused)
{
    counter++;
    return unused;
}

int main(void)
{
    pthread_t id;
    pipe(to_killer);
    if (fork() == 0)
        other_process();
    for (int how = 0; how < 6; how++) {
        int status;
        victim = 0;
        if (how == 1 || how == 2)
            pthread_create(&id, NULL, killer, NULL);
        pid_t child = vfork();
        if (child == 0)
            die(how);
        fork_once("before");
        waitpid(child, &status, 0);
        printf("%d: %x\n", how, status);
        fork_once("after");
        if (how == 1 || how == 2)
            pthread_join(id, NULL);
        child = vfork();
        if (child == 0) {
            execl("/bin/echo", "echo", "a program", NULL);
            _exit(9);
        }
        waitpid(child, &status, 0);
        pthread_create(&id, NULL, thread, NULL);
        pthread_join(id, NULL);
        fork_once("behind a program");
    }
    fflush(stdout);
    return system("echo the end");
}
