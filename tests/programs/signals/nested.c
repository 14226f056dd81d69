// Handlers interrupt handlers, as far as their masks let them.
#include "case.h"
static char trail[100];
static int at;
static void put(char c) { trail[at++] = c; }
static void a(int s, siginfo_t *i, void *c) {
    put('a');
    raise(SIGUSR2);
    put('A');
}
static void b(int s, siginfo_t *i, void *c) {
    put('b');
    raise(SIGURG);
    put('B');
}
static void c(int s, siginfo_t *i, void *u) {
    put('c');
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    put(sigismember(&now, SIGUSR1) ? '1' : '0');
    put(sigismember(&now, SIGUSR2) ? '1' : '0');
    put(sigismember(&now, SIGURG) ? '1' : '0');
}
int main(void) {
    on(SIGUSR1, a, 0);
    on(SIGUSR2, b, 0);
    on(SIGURG, c, 0);
    raise(SIGUSR1);
    put(' ');
    struct sigaction sa = {.sa_sigaction = b, .sa_flags = SA_SIGINFO};
    sigemptyset(&sa.sa_mask);
    sigaddset(&sa.sa_mask, SIGURG);
    sigaction(SIGUSR2, &sa, NULL);
    raise(SIGUSR1);
    puts(trail);
}
