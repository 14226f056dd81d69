/* Threads look for a program to execute, where there is none, themselves and in children of vfork, while others create threads: at the
   same time, again and again. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 10, TRIES = 20, THREADS = 100 };

static char *arguments[] = {"nothing", NULL};

/* How often there was something. */
static long look(void) {
    long bad = 0;
    for (int i = 0; i < TRIES; i++)
        bad += execve("/nowhere/nothing", arguments, arguments + 1) != -1 || errno != ENOENT;
    return bad;
}

static void *looks(void *unused) {
    (void)unused;
    long bad = 0;
    for (int i = 0; i < ROUNDS; i++)
        bad += look();
    return (void *)bad;
}

/* Whether a child of vfork failed that looks. */
static int lend(void) {
    pid_t pid = vfork();
    if (pid == 0)
        _exit(look() ? 1 : 4);
    int status;
    return waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 4;
}

static void *lends(void *unused) {
    (void)unused;
    long bad = 0;
    for (int i = 0; i < ROUNDS; i++)
        bad += lend();
    return (void *)bad;
}

static void *nothing(void *unused) {
    return unused;
}

static void *creates(void *unused) {
    (void)unused;
    long bad = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        bad += pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0;
    }
    return (void *)bad;
}

int main(void) {
    void *(*const work[])(void *) = {looks, lends, lends, creates};
    pthread_t threads[4];
    long bad = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(threads + i, NULL, work[i], NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        bad += (long)result;
    }
    printf("%ld bad\n", bad);
    return bad != 0;
}
