// A timer's handler sees to it that what the program waits for happens, however it waits: the signal may come at any moment before the wait or
// in it, and the handler is to run then, not behind it.
#include "case.h"
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#define EACH 400
static int helper[2], own[2], epoll, file, done[2];
static volatile sig_atomic_t way, woken, counted;
static const char *const fifo = "fifo", *const locked = "locked";

static void tell(int fd, char what) {
    if (write(fd, &what, 1) != 1)
        _exit(1);
}

static void wake(int s, siginfo_t *i, void *c) {
    switch (way) {
    case 0:
        tell(helper[1], 'o');
        break;
    case 1:
        tell(helper[1], 'u');
        break;
    case 2:
    case 3:
        kill(getpid(), SIGUSR1);
        break;
    default:
        tell(own[1], 'x');
    }
    woken = 1;
}

static void count(int s, siginfo_t *i, void *c) { counted++; }

static int lock(int fd, int type, int how) {
    struct flock all = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, how, &all);
}

// Another process, which opens the other end of the fifo, or has the file locked until it is told otherwise.
static void help(void) {
    char what;
    int fd = open(locked, O_RDWR);
    close(helper[1]);
    while (read(helper[0], &what, 1) == 1)
        switch (what) {
        case 'o':
            close(open(fifo, O_WRONLY));
            tell(done[1], 'o');
            break;
        case 'l':
            lock(fd, F_WRLCK, F_SETLKW);
            tell(done[1], 'l');
            break;
        case 'u':
            lock(fd, F_UNLCK, F_SETLK);
        }
    _exit(0);
}

static void start(int n) {
    struct itimerval time = {.it_value.tv_usec = 1 + n * 37 % 300};
    woken = 0;
    setitimer(ITIMER_REAL, &time, NULL);
}

static void wait_once(int n) {
    sigset_t usr1, open_all;
    struct epoll_event event;
    char byte;
    int fd;
    sigemptyset(&open_all);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    switch (way) {
    case 0:
        start(n);
        while ((fd = open(fifo, O_RDONLY)) < 0)
            ;
        close(fd);
        // The other end is closed again.
        read(done[0], &byte, 1);
        break;
    case 1:
        tell(helper[1], 'l');
        read(done[0], &byte, 1);
        start(n);
        while (lock(file, F_WRLCK, F_SETLKW) != 0)
            ;
        lock(file, F_UNLCK, F_SETLK);
        break;
    case 2:
        start(n);
        while (sigwaitinfo(&usr1, NULL) != SIGUSR1)
            ;
        counted++;
        break;
    case 3:
        start(n);
        for (int before = counted; counted == before;)
            sigsuspend(&open_all);
        break;
    default:
        start(n);
        while (syscall(441, epoll, &event, 1, NULL, way == 4 ? NULL : &open_all, 8) != 1)
            ;
        read(own[0], &byte, 1);
    }
    while (!woken)
        usleep(50);
}

int main(void) {
    pipe(helper);
    pipe(done);
    pipe(own);
    unlink(fifo);
    mkfifo(fifo, 0600);
    file = open(locked, O_RDWR | O_CREAT, 0600);
    pid_t child = fork();
    if (child == 0)
        help();
    close(helper[0]);
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, own[0], &event);
    on(SIGALRM, wake, SA_RESTART);
    on(SIGUSR1, count, 0);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    for (way = 0; way < 6; way++) {
        // The last one opens the mask for the wait alone.
        if (way == 5)
            sigaddset(&usr1, SIGALRM);
        sigprocmask(SIG_BLOCK, &usr1, NULL);
        for (int n = 0; n < EACH; n++)
            wait_once(n);
        printf("%d: through\n", way);
    }
    printf("%d counted\n", counted);
    close(helper[1]);
    waitpid(child, NULL, 0);
    unlink(fifo);
    unlink(locked);
}
