// Several POSIX timers with values, and the expirations that were missed.
#include "case.h"
static volatile int seen[3];
static void handler(int s, siginfo_t *i, void *c) {
    EXPECT(i->si_code == SI_TIMER);
    seen[i->si_value.sival_int]++;
}
int main(void) {
    on(SIGRTMIN, handler, 0);
    timer_t timers[3];
    for (int n = 0; n < 3; n++) {
        struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = n};
        EXPECT(timer_create(CLOCK_MONOTONIC, &e, &timers[n]) == 0);
        struct itimerspec t = {{0, 500000 * (n + 1)}, {0, 500000}};
        EXPECT(timer_settime(timers[n], 0, &t, NULL) == 0);
    }
    while (seen[0] < 50 || seen[1] < 25 || seen[2] < 15)
        work(50);
    for (int n = 0; n < 3; n++)
        EXPECT(timer_delete(timers[n]) == 0);
    puts("done");
}
