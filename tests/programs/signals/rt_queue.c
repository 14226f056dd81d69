// Queued real-time signals: lowest number first, first in first out, each with its value.
#include "case.h"
static volatile int count, order[16];
static void handler(int s, siginfo_t *i, void *c) {
    EXPECT(i->si_code == SI_QUEUE && i->si_pid == getpid());
    order[count++] = (s - SIGRTMIN) * 100 + i->si_value.sival_int;
}
int main(void) {
    sigset_t set;
    sigemptyset(&set);
    for (int n = 0; n < 3; n++) {
        struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigfillset(&sa.sa_mask);
        sigaction(SIGRTMIN + n, &sa, NULL);
        sigaddset(&set, SIGRTMIN + n);
    }
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int n = 0; n < 12; n++) {
        union sigval v = {.sival_int = n};
        EXPECT(sigqueue(getpid(), SIGRTMIN + 2 - n % 3, v) == 0);
    }
    sigset_t pending;
    sigpending(&pending);
    EXPECT(sigismember(&pending, SIGRTMIN) && sigismember(&pending, SIGRTMIN + 2));
    EXPECT(count == 0);
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    EXPECT(count == 12);
    for (int n = 0; n < 12; n++)
        printf("%d ", order[n]);
    puts("");
}
