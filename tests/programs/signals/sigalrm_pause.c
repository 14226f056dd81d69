// pause() until SIGALRM.
#include "case.h"
static volatile int seen;
static void handler(int s, siginfo_t *i, void *c) { seen++; }
int main(void) {
    on(SIGALRM, handler, 0);
    for (int n = 0; n < 5; n++) {
        struct itimerval t = {{0, 20000}, {0, 20000}};
        setitimer(ITIMER_REAL, &t, NULL);
        errno = 0;
        EXPECT(pause() == -1 && errno == EINTR);
        EXPECT(seen > n);
    }
    puts("done");
}
