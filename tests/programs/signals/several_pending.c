// Several signals that wait when the mask is opened: each begins before the first instruction of the one before, as the kernel's does,
// with its value; in a system call that opens the mask while it waits, none gets lost.
#include "case.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
static int seen[64], values[64], count, depth;
static void note(int s, siginfo_t *i, void *c) {
    /* Another handler in the middle of this would put its own there. */
    int at = count;
    depth++;
    for (volatile int n = 0; n < 1000; n++) continue;
    EXPECT(depth == 1);
    seen[at] = s;
    values[at] = i->si_value.sival_int;
    count = at + 1;
    depth--;
}
static const int sent[] = {SIGUSR1, SIGUSR2, SIGTERM, 40, 41, 40};
#define COUNT (int)(sizeof sent / sizeof *sent)
static void send(void) {
    count = 0;
    for (int n = 0; n < COUNT; n++) sigqueue(getpid(), sent[n], (union sigval){.sival_int = n});
}
static sigset_t all, none;
static void show(const char *how) {
    printf("%s:", how);
    for (int n = 0; n < count; n++) printf(" %d (%d)", seen[n], values[n]);
    puts("");
}
int main(void) {
    sigfillset(&all);
    sigemptyset(&none);
    for (int n = 0; n < COUNT; n++) on(sent[n], note, 0);
    for (int round = 0; round < 3; round++) {
        sigprocmask(SIG_SETMASK, &all, NULL);
        send();
        sigprocmask(SIG_SETMASK, &none, NULL);
        EXPECT(count == COUNT);
        show("opened");
        /* All of them wait when this handler returns. */
        struct sigaction sa = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
        sigfillset(&sa.sa_mask);
        EXPECT(sigaction(SIGHUP, &sa, NULL) == 0);
        sigprocmask(SIG_SETMASK, &all, NULL);
        send();
        raise(SIGHUP);
        sigprocmask(SIG_SETMASK, &none, NULL);
        EXPECT(count == COUNT + 1);
        show("behind a handler");
    }
    sigprocmask(SIG_SETMASK, &all, NULL);
    int epoll = epoll_create1(0);
    for (int how = 0; how < 4; how++) {
        int orders = 0;
        send();
        while (count < COUNT) {
            struct epoll_event event;
            int result = how == 0   ? sigsuspend(&none)
                         : how == 1 ? ppoll(NULL, 0, NULL, &none)
                         : how == 2 ? pselect(0, NULL, NULL, NULL, NULL, &none)
                                    : epoll_pwait(epoll, &event, 1, -1, &none);
            EXPECT(result == -1 && errno == EINTR);
        }
        for (int n = 0; n < COUNT; n++) orders |= 1 << values[n];
        EXPECT(orders == (1 << COUNT) - 1);
        sigset_t waiting;
        EXPECT(sigpending(&waiting) == 0 && sigisemptyset(&waiting));
    }
    puts("done");
}
