// SIGIO, and a real-time signal in its place with the descriptor in its siginfo.
#include "case.h"
#include <sys/socket.h>
static volatile int io, fd;
static void on_io(int s, siginfo_t *i, void *c) { io++; }
static void on_rt(int s, siginfo_t *i, void *c) { fd = i->si_fd; }
int main(void) {
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    on(SIGIO, on_io, 0);
    on(SIGRTMIN + 1, on_rt, 0);
    EXPECT(fcntl(pair[0], F_SETOWN, getpid()) == 0);
    EXPECT(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    EXPECT(write(pair[1], "x", 1) == 1);
    while (!io)
        work(10);
    EXPECT(fcntl(pair[0], F_SETSIG, SIGRTMIN + 1) == 0);
    EXPECT(write(pair[1], "y", 1) == 1);
    while (!fd)
        work(10);
    EXPECT(fd == pair[0]);
    puts("done");
}
