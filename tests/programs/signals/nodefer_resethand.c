// SA_NODEFER: a handler interrupted by its own signal. Without it: later. SA_RESETHAND: once.
#include "case.h"
static volatile int depth, deepest, calls;
static void handler(int s, siginfo_t *i, void *c) {
    calls++;
    if (++depth > deepest)
        deepest = depth;
    if (calls < 5)
        raise(s);
    depth--;
}
int main(void) {
    on(SIGUSR1, handler, SA_NODEFER);
    raise(SIGUSR1);
    printf("%d %d\n", deepest, calls);
    deepest = calls = 0;
    on(SIGUSR1, handler, 0);
    raise(SIGUSR1);
    printf("%d %d\n", deepest, calls);
    calls = 10;
    on(SIGUSR2, handler, SA_RESETHAND);
    raise(SIGUSR2);
    struct sigaction sa;
    EXPECT(sigaction(SIGUSR2, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
    on(SIGURG, handler, SA_RESETHAND);
    raise(SIGURG);
    raise(SIGURG); // ignored by default
    printf("%d\n", calls);
}
