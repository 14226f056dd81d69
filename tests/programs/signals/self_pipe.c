// A handler writes to a pipe that the program waits for, however it waits: the signal may come at any moment before the wait, and ends it.
#include "case.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#define EACH 1000
static int own[2];
static void wake(int s, siginfo_t *i, void *c) {
    if (write(own[1], "x", 1) != 1)
        _exit(1);
}
static int epoll;
static int waits(int way) {
    struct pollfd fd = {.fd = own[0], .events = POLLIN};
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(own[0], &set);
    switch (way) {
    case 0:
        return select(own[0] + 1, &set, NULL, NULL, NULL);
    case 1:
        return pselect(own[0] + 1, &set, NULL, NULL, NULL, &none);
    case 2:
        return ppoll(&fd, 1, NULL, NULL);
    case 3:
        return ppoll(&fd, 1, NULL, &none);
    case 4:
        return epoll_pwait(epoll, &event, 1, -1, NULL);
    case 5:
        return epoll_pwait(epoll, &event, 1, -1, &none);
    case 6:
        return syscall(SYS_pselect6, own[0] + 1, &set, NULL, NULL, NULL, NULL);
    default:
        return poll(&fd, 1, -1);
    }
}
int main(void) {
    int go[2];
    pipe(own);
    pipe(go);
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, own[0], &event);
    on(SIGUSR1, wake, 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        char byte;
        for (int n = 0; read(go[0], &byte, 1) == 1 && byte == 'g'; n++) {
            for (volatile int delay = 0; delay < n * 37 % 4000; delay++)
                ;
            kill(parent, SIGUSR1);
        }
        _exit(0);
    }
    for (int way = 0; way < 8; way++) {
        int woken = 0;
        for (int n = 0; n < EACH; n++) {
            write(go[1], "g", 1);
            while (waits(way) != 1)
                ;
            char byte;
            woken += read(own[0], &byte, 1);
        }
        printf("%d: woken %d times\n", way, woken);
    }
    write(go[1], "e", 1);
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
}
