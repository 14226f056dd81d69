// SA_RESTART and its absence, in system calls that wait.
#include "case.h"
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
static int pipes[2];
static volatile int seen;
static void count(int s, siginfo_t *i, void *c) { seen++; }
static void feed(int s, siginfo_t *i, void *c) {
    seen++;
    EXPECT(write(pipes[1], "x", 1) == 1);
}
static void soon(void) {
    struct itimerval t = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &t, NULL);
}
int main(void) {
    char c;
    EXPECT(pipe(pipes) == 0);
    on(SIGALRM, feed, SA_RESTART);
    soon();
    EXPECT(read(pipes[0], &c, 1) == 1 && c == 'x' && seen == 1);
    on(SIGALRM, count, 0);
    soon();
    EXPECT(read(pipes[0], &c, 1) == -1 && errno == EINTR);
    // These are never restarted.
    on(SIGALRM, count, SA_RESTART);
    struct pollfd p = {.fd = pipes[0], .events = POLLIN};
    soon();
    EXPECT(poll(&p, 1, 5000) == -1 && errno == EINTR);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    struct timeval tv = {5, 0};
    soon();
    EXPECT(select(pipes[0] + 1, &set, NULL, NULL, &tv) == -1 && errno == EINTR);
    struct timespec t = {5, 0}, left;
    soon();
    EXPECT(nanosleep(&t, &left) == -1 && errno == EINTR && left.tv_sec == 4);
    // wait is.
    pid_t child = fork();
    if (child == 0) {
        usleep(60000);
        _exit(3);
    }
    int status;
    soon();
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct timeval limit = {0, 50000};
    EXPECT(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    soon();
    EXPECT(recv(pair[0], &c, 1, 0) == -1);
    printf("%d\n", seen);
}
