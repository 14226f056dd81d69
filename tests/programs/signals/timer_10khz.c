// A timer at 10 kHz while the program computes.
#include "case.h"
static volatile unsigned ticks;
static void tick(int s, siginfo_t *i, void *c) { ticks++; }
int main(void) {
    on(SIGALRM, tick, SA_RESTART);
    struct itimerval t = {{0, 100}, {0, 100}};
    EXPECT(setitimer(ITIMER_REAL, &t, NULL) == 0);
    uint64_t sum = 0, once = work(1000);
    while (ticks < 1500) {
        uint64_t x = work(1000);
        EXPECT(x == once);
        sum = sum < x ? x : sum;
    }
    memset(&t, 0, sizeof t);
    EXPECT(setitimer(ITIMER_REAL, &t, NULL) == 0);
    printf("%lx\n", sum);
}
