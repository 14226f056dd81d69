// pause() until SIGALRM.
#include "case.h"
static volatile int seen;
static void handler(int s, siginfo_t *i, void *c) { seen++; }
int main(void) {
    on(SIGALRM, handler, 0);
    // Again and again: one may come before the program waits.
    struct itimerval t = {{0, 30000}, {0, 30000}};
    setitimer(ITIMER_REAL, &t, NULL);
    for (int n = 0; n < 5; n++) {
        int before = seen;
        int result = pause(), error = errno;
        EXPECT(result == -1 && error == EINTR && seen > before);
    }
    puts("done");
}
