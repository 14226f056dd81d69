// sigaction gives back what was set: handlers, flags, masks, the restorer.
#include "case.h"
static void h1(int s) {}
static void h2(int s, siginfo_t *i, void *c) {}
int main(void) {
    struct sigaction a = {.sa_handler = h1, .sa_flags = SA_RESTART}, b = {.sa_sigaction = h2, .sa_flags = SA_SIGINFO | SA_NODEFER}, o;
    sigemptyset(&a.sa_mask);
    sigaddset(&a.sa_mask, SIGINT);
    sigemptyset(&b.sa_mask);
    for (int s = 1; s < 65; s++) {
        if (s == SIGKILL || s == SIGSTOP || s == 32 || s == 33)
            continue;
        EXPECT(sigaction(s, NULL, &o) == 0 && o.sa_handler == SIG_DFL);
        EXPECT(sigaction(s, &a, &o) == 0 && o.sa_handler == SIG_DFL);
        EXPECT(sigaction(s, &b, &o) == 0 && o.sa_handler == h1 && (o.sa_flags & SA_RESTART) && sigismember(&o.sa_mask, SIGINT));
        EXPECT(sigaction(s, NULL, &o) == 0 && o.sa_sigaction == h2 && (o.sa_flags & SA_NODEFER) && !sigismember(&o.sa_mask, SIGINT));
    }
    puts("done");
}
