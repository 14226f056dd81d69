// epoll, eventfd, timerfd, inotify, pidfd.
#include "case.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
int main(void) {
    int ep = epoll_create1(0), ev = eventfd(0, EFD_NONBLOCK), tm = timerfd_create(CLOCK_MONOTONIC, 0), in = inotify_init1(0);
    EXPECT(ep >= 0 && ev >= 0 && tm >= 0 && in >= 0);
    int fds[] = {ev, tm, in};
    for (int n = 0; n < 3; n++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234567800000000 + n};
        EXPECT(epoll_ctl(ep, EPOLL_CTL_ADD, fds[n], &e) == 0);
    }
    EXPECT(inotify_add_watch(in, ".", IN_CREATE) >= 0);
    struct itimerspec t = {{0, 0}, {0, 5000000}};
    EXPECT(timerfd_settime(tm, 0, &t, NULL) == 0);
    EXPECT(eventfd_write(ev, 5) == 0);
    close(open("created", O_CREAT | O_WRONLY, 0600));
    unlink("created");
    unsigned seen = 0;
    while (seen != 7) {
        struct epoll_event e[3];
        int n = epoll_wait(ep, e, 3, 5000);
        EXPECT(n > 0);
        for (int k = 0; k < n; k++) {
            int which = e[k].data.u64 & 0xff;
            EXPECT(e[k].data.u64 >> 32 == 0x12345678);
            seen |= 1u << which;
            char buffer[512];
            uint64_t value;
            long got = read(fds[which], buffer, sizeof buffer);
            EXPECT(got >= 8);
            memcpy(&value, buffer, 8);
            if (which == 0)
                EXPECT(value == 5);
            if (which == 1)
                EXPECT(value == 1);
            if (which == 2)
                EXPECT(strcmp(((struct inotify_event *)buffer)->name, "created") == 0);
        }
    }
    pid_t child = fork();
    if (child == 0)
        _exit(4);
    int pidfd = syscall(SYS_pidfd_open, child, 0);
    siginfo_t i;
    EXPECT(pidfd >= 0 && waitid(P_PIDFD, pidfd, &i, WEXITED) == 0 && i.si_status == 4);
    puts("done");
}
