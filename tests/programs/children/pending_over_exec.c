/* Signals that are blocked and wait when a program executes another one: they wait there, too, are found by `sigpending`, taken by
 * `sigwaitinfo` with what was sent with them, in their order, and kill where they are let in. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const int sent[] = {SIGUSR1, SIGTERM, SIGALRM, SIGCHLD, 40, 40, 40, 50};
#define COUNT (int)(sizeof sent / sizeof *sent)

/* The program that was executed. */
static int look(int kill) {
    sigset_t waiting, blocked;
    sigpending(&waiting);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int signal = 1; signal < NSIG; signal++)
        if (sigismember(&waiting, signal)) printf("%d waits, and is %s\n", signal, sigismember(&blocked, signal) ? "blocked" : "not blocked");
    fflush(stdout);
    if (kill) sigprocmask(SIG_UNBLOCK, &waiting, NULL);
    for (;;) {
        siginfo_t info;
        int signal = sigtimedwait(&waiting, &info, &(struct timespec){0});
        if (signal < 0) return 0;
        printf("%d: code %d, value %d\n", signal, info.si_code, info.si_value.sival_int);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return look(argv[1][0] == 'k');
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    const char *how[] = {"look", "kill"};
    for (int n = 0; n < 2; n++) {
        fflush(stdout);
        if (fork() == 0) {
            for (int k = 0; k < COUNT; k++) sigqueue(getpid(), sent[k], (union sigval){.sival_int = 100 + k});
            execl("/proc/self/exe", argv[0], how[n], NULL);
            _exit(1);
        }
        int status;
        wait(&status);
        printf("%s: %x\n", how[n], status);
    }
    return 0;
}
