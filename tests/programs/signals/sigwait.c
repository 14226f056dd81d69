// sigwait, sigwaitinfo, sigtimedwait on blocked signals, sent from here and from a child.
#include "case.h"
int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int number;
    raise(SIGUSR1);
    EXPECT(sigwait(&set, &number) == 0 && number == SIGUSR1);
    union sigval v = {.sival_int = 9};
    sigqueue(getpid(), SIGRTMIN, v);
    siginfo_t i;
    EXPECT(sigwaitinfo(&set, &i) == SIGRTMIN && i.si_value.sival_int == 9);
    struct timespec soon = {0, 1000000};
    EXPECT(sigtimedwait(&set, &i, &soon) == -1 && errno == EAGAIN);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    EXPECT(sigwaitinfo(&set, &i) == SIGUSR2 && i.si_pid == child);
    EXPECT(waitpid(child, NULL, 0) == child);
    puts("done");
}
