// sigprocmask, sigpending, and what cannot be blocked.
#include "case.h"
static volatile int seen;
static void handler(int s, siginfo_t *i, void *c) { seen++; }
int main(void) {
    sigset_t all, now, set;
    sigfillset(&all);
    EXPECT(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
    printf("%d %d %d\n", sigismember(&now, SIGKILL), sigismember(&now, SIGSTOP), sigismember(&now, SIGUSR1));
    on(SIGUSR1, handler, 0);
    on(SIGUSR2, handler, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    sigpending(&set);
    printf("%d %d %d %d\n", sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2), sigismember(&set, SIGINT), seen);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("%d\n", seen);
    // Ignoring a pending signal discards it.
    signal(SIGUSR2, SIG_IGN);
    on(SIGUSR2, handler, 0);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    printf("%d\n", seen);
    EXPECT(sigprocmask(99, &set, NULL) == -1 && errno == EINVAL);
    struct sigaction sa = {.sa_handler = SIG_IGN};
    EXPECT(sigaction(SIGKILL, &sa, NULL) == -1 && errno == EINVAL);
    EXPECT(sigaction(65, &sa, NULL) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 4) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void *)8, NULL, 8) == -1 && errno == EFAULT);
    puts("done");
}
