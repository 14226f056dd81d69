// SIGALRM without a handler.
// info: SIGALRM
#include "case.h"
int main(void) {
    struct itimerval t = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &t, NULL);
    for (;;)
        work(100);
}
