// ppoll and pselect open a mask for as long as they wait.
#include "case.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
static volatile int seen, blocked;
static void handler(int s, siginfo_t *i, void *c) {
    seen++;
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    blocked = sigismember(&now, SIGURG);
}
int main(void) {
    on(SIGUSR1, handler, 0);
    sigset_t set, open, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigemptyset(&open);
    sigaddset(&open, SIGURG);
    struct timespec t = {5, 0};
    raise(SIGUSR1);
    EXPECT(ppoll(NULL, 0, &t, &open) == -1 && errno == EINTR);
    printf("%d %d\n", seen, blocked);
    raise(SIGUSR1);
    EXPECT(pselect(0, NULL, NULL, NULL, &t, &open) == -1 && errno == EINTR);
    printf("%d %d\n", seen, blocked);
    raise(SIGUSR1);
    int ep = epoll_create1(0);
    struct epoll_event e;
    EXPECT(epoll_pwait(ep, &e, 1, 5000, &open) == -1 && errno == EINTR);
    printf("%d %d\n", seen, blocked);
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("%d %d\n", sigismember(&now, SIGUSR1), sigismember(&now, SIGURG));
    struct timespec none = {0, 0};
    EXPECT(ppoll(NULL, 0, &none, &open) == 0);
}
