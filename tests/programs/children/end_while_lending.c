/* Processes end, by themselves or by a signal, while a child of vfork of theirs, which outlives them, looks for a program to execute, where there is none. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 12, TRIES = 60 };

static int ends[2];
static int is_lent;
static char *arguments[] = {"nothing", NULL};

static void *lends(void *unused) {
    if (vfork() == 0) {
        __atomic_store_n(&is_lent, 1, __ATOMIC_SEQ_CST);
        for (int i = 0; i < TRIES; i++)
            execve("/nowhere/nothing", arguments, arguments + 1);
        _exit(write(ends[1], "c", 1) != 1);
    }
    return unused;
}

/* A process that ends some milliseconds after it has begun to lend its memory, by this signal, if there is one. */
static void process(long after, int signal) {
    pthread_t thread;
    struct timespec millisecond = {0, 1000000};
    pthread_create(&thread, NULL, lends, NULL);
    while (!__atomic_load_n(&is_lent, __ATOMIC_SEQ_CST))
        nanosleep(&millisecond, NULL);
    for (long i = 0; i < after; i++)
        nanosleep(&millisecond, NULL);
    if (signal)
        kill(getpid(), signal);
    else
        _exit(3);
    for (;;)
        pause();
}

static int has_ended(int status, int signal) {
    if (signal)
        return WIFSIGNALED(status) && WTERMSIG(status) == signal;
    return WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static long failed(long after, int signal) {
    char told[2];
    int status;
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0)
        process(after, signal);
    close(ends[1]);
    long bad = waitpid(pid, &status, 0) != pid || !has_ended(status, signal);
    /* Until the child has ended, too. */
    bad += read(ends[0], told, 2) != 1 || read(ends[0], told, 1) != 0;
    close(ends[0]);
    return bad;
}

int main(void) {
    long bad = 0;
    for (long i = 0; i < ROUNDS; i++)
        bad += failed(i, i % 2 ? SIGTERM : 0) != 0;
    printf("%ld bad\n", bad);
    return bad != 0;
}
