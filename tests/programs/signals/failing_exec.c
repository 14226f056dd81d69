// Signals that come while calls of execve fail.
#include "case.h"
#include <sys/time.h>

static volatile int handled;

static void handler(int signal) { handled++; }

int main(void) {
    struct itimerval timer = {{0, 300}, {0, 300}};
    long failed = 0;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int calls = 0; calls < 300 || handled < 20; calls++)
        failed += execl("/nonexistent", "nonexistent", NULL) == -1 && errno == ENOENT ? 0 : 1;
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("%ld went another way\n", failed);
}
