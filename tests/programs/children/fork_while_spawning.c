/* Some threads fork, others spawn programs: at the same time, again and again. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static long failed(pid_t pid, int expected) {
    int status;
    return waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != expected;
}

static void *forks(void *rounds) {
    long bad = 0;
    for (long i = 0; i < (long)rounds; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(4);
        bad += failed(pid, 4);
    }
    return (void *)bad;
}

static void *spawns(void *rounds) {
    long bad = 0;
    char *argv[] = {"false", NULL};
    for (long i = 0; i < (long)rounds; i++) {
        pid_t pid;
        if (posix_spawn(&pid, "/bin/false", NULL, NULL, argv, environ))
            bad++;
        else
            bad += failed(pid, 1);
    }
    return (void *)bad;
}

int main(void) {
    pthread_t threads[4];
    long bad = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(threads + i, NULL, i % 2 ? forks : spawns, (void *)8);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        bad += (long)result;
    }
    printf("%ld bad\n", bad);
    return bad != 0;
}
