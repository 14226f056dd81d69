// Children of vfork that signals kill before they have executed a program: of their own doing, sent by themselves, and by another
// process. The parent goes on, makes more of them, and threads, and executes a program.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long counter;
static volatile int handled;
static int to_killer[2];

struct request {
    pid_t pid;
    int signal;
};

// Forked before any child dies; ends with the pipe.
static void killer(void)
{
    struct request request;
    close(to_killer[1]);
    while (read(to_killer[0], &request, sizeof request) == sizeof request) {
        usleep(20000);
        kill(request.pid, request.signal);
    }
    _exit(0);
}

static void ask(int signal)
{
    struct request request = {getpid(), signal};
    write(to_killer[1], &request, sizeof request);
}

static void handler(int signal)
{
    handled = signal;
}

static void die(int how)
{
    sigset_t set;
    switch (how) {
    case 0: kill(getpid(), SIGTERM); break;
    case 1: abort();
    case 2: *(volatile int *)8 = 1; break;
    case 3: kill(getpid(), SIGKILL); break;
    case 4: raise(SIGSEGV); break;
    case 5: _exit(3);
    case 6: syscall(SYS_exit, 4); break;
    case 7: __builtin_trap(); break;
    case 8: ((void (*)(void))0x5000)(); break;
    case 9: asm volatile("int3"); break;
    case 10: counter = *(volatile int *)&counter / handled; break;
    case 11: // blocked first
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR2);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        break;
    case 12: // the parent's handler, and then by default
        raise(SIGUSR1);
        signal(SIGUSR1, SIG_DFL);
        raise(SIGUSR1);
        break;
    case 13: ask(SIGTERM); pause(); break;
    case 14: ask(SIGKILL); pause(); break;
    case 15: ask(SIGTERM); for (;;) counter++;
    case 16: ask(SIGKILL); for (;;) counter++;
    case 17: ask(SIGSEGV); for (;;) counter++;
    case 18: ask(SIGABRT); for (;;) counter++;
    case 19: ask(SIGRTMIN); pause(); break;
    }
    _exit(99);
}

static void all_ways(void)
{
    for (int how = 0; how < 20; how++) {
        int status = -1;
        pid_t child = vfork();
        if (child == 0)
            die(how);
        waitpid(child, &status, 0);
        fflush(stdout); printf("%d: status %x, handled %d\n", how, status & ~0x80, handled);
        handled = 0;
    }
}

static void *thread(void *unused)
{
    all_ways();
    return unused;
}

static void *compute(void *unused)
{
    for (;;)
        counter++;
    return unused;
}

int main(void)
{
    pthread_t id;
    pipe(to_killer);
    if (fork() == 0)
        killer();
    signal(SIGUSR1, handler);
    all_ways();
    pthread_create(&id, NULL, compute, NULL);
    all_ways();
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    fflush(stdout);
    if (vfork() == 0)
        execl("/bin/echo", "echo", "a program of a child", NULL);
    wait(NULL);
    execl("/bin/echo", "echo", "its own", NULL);
}
