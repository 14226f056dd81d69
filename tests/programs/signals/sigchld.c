// SIGCHLD of many children, with its siginfo.
#include "case.h"
static volatile int ended, sum;
static void handler(int s, siginfo_t *i, void *c) {
    int status, saved = errno;
    pid_t pid;
    EXPECT(i->si_code == CLD_EXITED);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        ended++, sum += WEXITSTATUS(status);
    errno = saved;
}
int main(void) {
    on(SIGCHLD, handler, SA_RESTART | SA_NOCLDSTOP);
    for (int n = 0; n < 20; n++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0)
            _exit(n);
    }
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    while (ended < 20)
        sigsuspend(&old);
    printf("%d %d\n", ended, sum);
}
