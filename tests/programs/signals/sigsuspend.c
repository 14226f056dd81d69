// sigsuspend: the mask is the temporary one while it waits, afterwards the old one.
#include "case.h"
static volatile int seen, inside1;
static void handler(int s, siginfo_t *i, void *c) {
    seen = s;
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    inside1 = sigismember(&now, SIGUSR1);
}
int main(void) {
    on(SIGUSR1, handler, 0);
    on(SIGUSR2, handler, 0);
    sigset_t set, temporary, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_SETMASK, &set, NULL);
    raise(SIGUSR1);
    EXPECT(seen == 0);
    sigfillset(&temporary);
    sigdelset(&temporary, SIGUSR1);
    EXPECT(sigsuspend(&temporary) == -1 && errno == EINTR);
    printf("%d %d\n", seen == SIGUSR1, inside1);
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("%d %d %d\n", sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2), sigismember(&now, SIGURG));
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    sigdelset(&temporary, SIGUSR2);
    EXPECT(sigsuspend(&temporary) == -1 && errno == EINTR && seen == SIGUSR2);
    EXPECT(waitpid(child, NULL, 0) == child);
    puts("done");
}
