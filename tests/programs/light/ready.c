// Calls that wait until something is ready, while another thread makes it so: each kind with something ready at once, later, and never (a time, or a signal); what they give is checked.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int work[2], done[2], fds[2]; // a pipe, a pair of sockets
static pthread_t first;
static atomic_long computed, filled;
static volatile sig_atomic_t handled;
static void on(int s) { handled++; (void)s; }
static void check(int line, int ok, long got) { if (!ok) { printf("line %d: %ld, errno %d\n", line, got, errno); fflush(stdout); _exit(1); } }
// What the kernel cannot write to; the compiler does not know it.
static void *volatile nowhere = (void *)8;
#define CHECK(what, ok) do { long got = (what); check(__LINE__, ok, got); } while (0)

// What the other thread is asked to do: later.
static void later(char what) { CHECK(write(work[1], &what, 1), got == 1); }

static void *helper(void *none)
{
    char what;
    (void)none;
    while (read(work[0], &what, 1) == 1) {
        for (int i = 0; i < 2000; i++) computed++;
        if (what == 'w') CHECK(write(fds[1], "x", 1), got == 1);
        if (what == 'r') { static char room[1 << 14]; for (long got; filled > 0; filled -= got) { got = read(fds[1], room, sizeof room); check(__LINE__, got > 0, got); } CHECK(write(done[1], room, 1), got == 1); }
        if (what == 's') pthread_kill(first, SIGUSR1);
        if (what == 'd') { usleep(300); CHECK(write(fds[1], "y", 1), got == 1); }
        if (what == 'q') break;
    }
    return NULL;
}

static void take(void) { char c; CHECK(read(fds[0], &c, 1), got == 1); }

static int waits(int how, int ep, struct epoll_event *e, int ms, const sigset_t *mask)
{
    struct timespec ts = { ms / 1000, ms % 1000 * 1000000L }, *t = ms < 0 ? NULL : &ts;
    struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
    struct pollfd p = { fds[0], POLLIN, 0x7777 };
    fd_set in;
    int got;
    FD_ZERO(&in);
    FD_SET(fds[0], &in);
    switch (how) {
    case 0: return epoll_wait(ep, e, 4, ms);
    case 1: return epoll_pwait(ep, e, 4, ms, mask);
    case 2: return syscall(SYS_epoll_pwait2, ep, e, 4, t, mask, 8);
    case 3: got = poll(&p, 1, ms); check(__LINE__, p.revents == (got > 0 ? POLLIN : got == 0 || errno == EINTR ? 0 : 0x7777), p.revents); return got;
    case 4: got = ppoll(&p, 1, t, mask); check(__LINE__, p.revents == (got > 0 ? POLLIN : 0), p.revents); return got;
    case 5: got = select(fds[0] + 1, &in, NULL, NULL, ms < 0 ? NULL : &tv); check(__LINE__, got < 0 || FD_ISSET(fds[0], &in) == got, got); return got;
    case 6: got = pselect(fds[0] + 1, &in, NULL, NULL, t, mask); check(__LINE__, got < 0 || FD_ISSET(fds[0], &in) == got, got); return got;
    case 7: got = syscall(SYS_select, fds[0] + 1, &in, NULL, NULL, ms < 0 ? NULL : &tv); check(__LINE__, got < 0 || FD_ISSET(fds[0], &in) == got, got); return got;
    }
    return -1;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    struct sigaction act = { .sa_handler = on };
    sigset_t usr, none, all;
    pthread_t thread;
    first = pthread_self();
    sigemptyset(&none); sigemptyset(&usr); sigaddset(&usr, SIGUSR1); sigfillset(&all);
    sigaction(SIGUSR1, &act, NULL);
    CHECK(pipe(work), got == 0);
    CHECK(pipe(done), got == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), got == 0);
    int ep = epoll_create1(0);
    struct epoll_event e[4], add = { EPOLLIN, { .u64 = 42 } };
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &add), got == 0);
    pthread_create(&thread, NULL, helper, NULL);
    for (int round = 0; round < rounds; round++) {
        for (int how = 0; how < 8; how++) {
            // Never, at once, later.
            CHECK(waits(how, ep, e, 0, NULL), got == 0);
            CHECK(waits(how, ep, e, 1, NULL), got == 0);
            CHECK(write(fds[1], "a", 1), got == 1);
            CHECK(waits(how, ep, e, 1000, NULL), got == 1);
            check(__LINE__, how > 2 || e[0].data.u64 == 42 && e[0].events == EPOLLIN, e[0].events);
            CHECK(waits(how, ep, e, -1, &none), got == 1);
            take();
            for (int i = 0; i < 3; i++) {
                memset(e, 0x55, sizeof e);
                later(i == 2 ? 'd' : 'w');
                CHECK(waits(how, ep, e, i == 1 ? 10000 : -1, i == 1 ? &none : NULL), got == 1);
                check(__LINE__, how > 2 || e[0].data.u64 == 42 && e[0].events == EPOLLIN && e[1].events == 0x55555555, e[0].events);
                take();
            }
            // A signal that the mask lets in.
            if (how != 0 && how != 3 && how != 5 && how != 7) {
                pthread_sigmask(SIG_BLOCK, &usr, NULL);
                int before = handled;
                later('s');
                CHECK(waits(how, ep, e, -1, &none), got == -1 && errno == EINTR && handled == before + 1);
                // One that waits, and something that is ready: epoll gives that, the signal stays.
                if (how == 1 || how == 2) {
                    raise(SIGUSR1);
                    CHECK(write(fds[1], "a", 1), got == 1);
                    CHECK(waits(how, ep, e, -1, &none), got == 1 && handled == before + 1);
                    CHECK(waits(how, ep, e, -1, &all), got == 1 && handled == before + 1);
                    take();
                    CHECK(waits(how, ep, e, -1, &none), got == -1 && errno == EINTR && handled == before + 2);
                }
                pthread_sigmask(SIG_UNBLOCK, &usr, NULL);
            }
            int before = handled;
            later('s');
            long got = waits(how, ep, e, 200, NULL);
            check(__LINE__, got == -1 && errno == EINTR && handled == before + 1 || got == 0 && handled == before + 1, got);
        }
        // What is wrong stays so.
        struct timespec wrong = { 0, 2000000000 };
        CHECK(write(fds[1], "a", 1), got == 1);
        CHECK(syscall(SYS_epoll_pwait2, ep, e, 4, &wrong, NULL, 8), got == -1 && errno == EINVAL);
        CHECK(syscall(SYS_epoll_pwait, ep, e, 4, -1, &none, 7), got == -1 && errno == EINVAL);
        CHECK(syscall(SYS_epoll_pwait, ep, e, 4, -1, nowhere, 8), got == -1 && errno == EFAULT);
        CHECK(epoll_wait(ep, e, 0, -1), got == -1 && errno == EINVAL);
        CHECK(epoll_wait(fds[0], e, 1, -1), got == -1 && errno == EINVAL);
        CHECK(epoll_wait(-1, e, 1, -1), got == -1 && errno == EBADF);
        CHECK(epoll_wait(ep, nowhere, 1, -1), got == -1 && errno == EFAULT);
        CHECK(poll(nowhere, 1, -1), got == -1 && errno == EFAULT);
        take();
        // Edges, and once.
        struct epoll_event once = { EPOLLIN | EPOLLONESHOT, { .u64 = 7 } }, edge = { EPOLLIN | EPOLLET, { .u64 = 8 } };
        CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[0], &once), got == 0);
        CHECK(write(fds[1], "a", 1), got == 1);
        CHECK(epoll_wait(ep, e, 4, -1), got == 1 && e[0].data.u64 == 7);
        CHECK(epoll_wait(ep, e, 4, 1), got == 0);
        CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[0], &edge), got == 0);
        CHECK(epoll_wait(ep, e, 4, -1), got == 1 && e[0].data.u64 == 8);
        CHECK(epoll_wait(ep, e, 4, 1), got == 0);
        later('w');
        CHECK(epoll_wait(ep, e, 4, -1), got == 1 && e[0].data.u64 == 8);
        take(); take();
        CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[0], &add), got == 0);
        // Reads and writes that wait.
        char room[8];
        for (int i = 0; i < 3; i++) { later(i == 2 ? 'd' : 'w'); take(); }
        later('w'); CHECK(recv(fds[0], room, 8, 0), got == 1);
        struct iovec v = { room, 8 }; struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
        later('w'); CHECK(recvmsg(fds[0], &m, 0), got == 1);
        later('w'); CHECK(readv(fds[0], &v, 1), got == 1);
        CHECK(recv(fds[0], room, 8, MSG_DONTWAIT), got == -1 && errno == EAGAIN);
        later('s'); later('d');
        long got = read(fds[0], room, 8);
        check(__LINE__, got == 1 || (got == -1 && errno == EINTR), got);
        if (got < 0) take();
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
        CHECK(read(fds[0], room, 8), got == -1 && errno == EAGAIN);
        static char big[1 << 16];
        for (long got; (got = write(fds[0], big, sizeof big)) > 0;) filled += got;
        check(__LINE__, errno == EAGAIN, errno);
        fcntl(fds[0], F_SETFL, 0);
        later('r');
        CHECK(write(fds[0], big, 1000), got == 1000);
        CHECK(read(done[0], room, 1), got == 1);
        CHECK(shutdown(fds[0], SHUT_WR), got == 0);
        while (read(fds[1], big, sizeof big) > 0) {}{}
        close(fds[0]); close(fds[1]); close(ep);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), got == 0);
        ep = epoll_create1(0);
        CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &add), got == 0);
    }
    later('q');
    pthread_join(thread, NULL);
    printf("right, %d signals, %ld\n", handled, (long)computed);
    return 0;
}
