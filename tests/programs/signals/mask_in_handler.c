// The mask that a handler finds that has ended a wait with a mask of its own.
#include "case.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
static const int signals[] = {SIGUSR1, SIGUSR2, SIGURG, SIGTERM};
static volatile int inside;
static int blocked(void) {
    sigset_t now;
    int bits = 0;
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
    for (int i = 0; i < 4; i++)
        bits |= sigismember(&now, signals[i]) << i;
    return bits;
}
static void handler(int s, siginfo_t *i, void *context) {
    sigset_t *after = &((ucontext_t *)context)->uc_sigmask, more;
    inside = blocked() | sigismember(after, SIGTERM) << 4 | sigismember(after, SIGURG) << 5;
    sigemptyset(&more);
    sigaddset(&more, SIGTERM);
    EXPECT(sigprocmask(SIG_BLOCK, &more, NULL) == 0);
    inside |= blocked() << 8;
}
int main(void) {
    on(SIGUSR1, handler, 0);
    sigset_t old, in_wait;
    sigemptyset(&old);
    sigaddset(&old, SIGUSR1);
    sigaddset(&old, SIGTERM);
    EXPECT(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    sigemptyset(&in_wait);
    sigaddset(&in_wait, SIGUSR2);
    sigaddset(&in_wait, SIGURG);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (int how = 0; how < 4; how++) {
        raise(SIGUSR1);
        inside = 0;
        int result = how == 0   ? sigsuspend(&in_wait)
                     : how == 1 ? ppoll(NULL, 0, NULL, &in_wait)
                     : how == 2 ? pselect(0, NULL, NULL, NULL, NULL, &in_wait)
                                : epoll_pwait(epoll, &event, 1, -1, &in_wait);
        EXPECT(result == -1 && errno == EINTR);
        printf("%d: inside %x, behind %x\n", how, inside, blocked());
    }
}
