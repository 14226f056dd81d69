// Waits for ever in one system call of many, in one of several ways, until somebody kills it.
//
// waits CALL WHERE: WHERE is `alone`; `thread` (another thread waits, the first one joins it); `threads` (three of them, while
// two more compute); `child` (a forked child waits, the parent waits for it); or `itself`, `itself-thread` (a timer's SIGTERM ends
// the wait). It prints the process id of who waits when the wait is about to begin.
#include "case.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

static int ends[2], pair[2], listener, other_lock;
static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;

static void prepare(void) {
    EXPECT(pipe(ends) == 0);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    EXPECT((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    EXPECT(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0 && listen(listener, 1) == 0);
    int file = open("lock", O_CREAT | O_RDWR, 0600);
    EXPECT(file >= 0 && flock(file, LOCK_EX) == 0);
    EXPECT((other_lock = open("lock", O_RDWR)) >= 0);
    pthread_mutex_lock(&locked);
}

static char buffer[1 << 20];
static int word;
static struct timespec long_time = {100000, 0};
static struct timeval long_time_too = {100000, 0};

static void call_read(void) { read(ends[0], buffer, 100); }
static void call_readv(void) { readv(ends[0], &(struct iovec){buffer, 100}, 1); }
static void call_write(void) { while (write(ends[1], buffer, 4096) > 0) {} }
static void call_accept(void) { accept(listener, NULL, NULL); }
static void call_recv(void) { recv(pair[0], buffer, 100, 0); }
static void call_recvmsg(void) {
    struct msghdr message = {.msg_iov = &(struct iovec){buffer, 100}, .msg_iovlen = 1};
    recvmsg(pair[0], &message, 0);
}
static void call_send(void) { while (send(pair[0], buffer, 1000, 0) > 0) {} }
static void call_poll(void) { poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, -1); }
static void call_poll_timed(void) { poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, 1000000); }
static void call_ppoll(void) {
    sigset_t none;
    sigemptyset(&none);
    ppoll(&(struct pollfd){ends[0], POLLIN, 0}, 1, &long_time, &none);
}
static void call_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    select(ends[0] + 1, &set, NULL, NULL, &long_time_too);
}
static void call_pselect(void) {
    sigset_t none;
    sigemptyset(&none);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    pselect(ends[0] + 1, &set, NULL, NULL, NULL, &none);
}
static void call_epoll_wait(void) {
    struct epoll_event event = {.events = EPOLLIN};
    int poll = epoll_create1(0);
    EXPECT(epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    epoll_wait(poll, &event, 1, -1);
}
static void call_epoll_pwait(void) {
    sigset_t none;
    sigemptyset(&none);
    struct epoll_event event;
    epoll_pwait(epoll_create1(0), &event, 1, 1000000, &none);
}
static void call_nanosleep(void) { nanosleep(&long_time, NULL); }
static void call_nanosleep_rest(void) {
    struct timespec rest;
    nanosleep(&long_time, &rest);
}
static void call_clock_nanosleep(void) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 100000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}
static void call_pause(void) { pause(); }
static void call_sigsuspend(void) {
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
}
static void call_sigwait(void) {
    sigset_t one;
    int got;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMAX);
    sigprocmask(SIG_BLOCK, &one, NULL);
    sigwait(&one, &got);
}
static void call_sigtimedwait(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMAX);
    sigprocmask(SIG_BLOCK, &one, NULL);
    sigtimedwait(&one, NULL, &long_time);
}
static void call_futex(void) { syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }
static void call_futex_timed(void) { syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &long_time, NULL, 0); }
static void call_mutex(void) { pthread_mutex_lock(&locked); }
static void call_wait4(void) {
    if (fork() == 0) {
        // Ends with the parent, which holds the other end.
        close(ends[1]);
        read(ends[0], buffer, 1);
        _exit(0);
    }
    wait(NULL);
}
static void call_waitid(void) {
    if (fork() == 0) {
        close(ends[1]);
        read(ends[0], buffer, 1);
        _exit(0);
    }
    siginfo_t info;
    waitid(P_ALL, 0, &info, WEXITED);
}
static void call_flock(void) { flock(other_lock, LOCK_EX); }
static void call_fcntl_lock(void) {
    struct flock lock = {.l_type = F_WRLCK};
    EXPECT(fcntl(other_lock, F_OFD_SETLK, &lock) == 0);
    int third = open("lock", O_RDWR);
    fcntl(third, F_OFD_SETLKW, &lock);
}
static void call_open_fifo(void) {
    char name[20];
    sprintf(name, "fifo%d", gettid());
    EXPECT(mkfifo(name, 0600) == 0);
    open(name, O_RDONLY);
}
static void call_eventfd(void) { read(eventfd(0, 0), buffer, 8); }
static void call_timerfd(void) { read(timerfd_create(CLOCK_MONOTONIC, 0), buffer, 8); }
static void call_inotify(void) { read(inotify_init1(0), buffer, 100); }
static void call_semop(void) {
    int set = semget(IPC_PRIVATE, 1, 0600);
    EXPECT(set >= 0);
    // Nobody else finds it, and it must not stay.
    struct sembuf up = {0, -1, 0};
    if (fork() == 0) {
        close(ends[1]);
        read(ends[0], buffer, 1);
        semctl(set, 0, IPC_RMID);
        _exit(0);
    }
    semop(set, &up, 1);
}
static void call_msgrcv(void) {
    int queue = msgget(IPC_PRIVATE, 0600);
    EXPECT(queue >= 0);
    if (fork() == 0) {
        close(ends[1]);
        read(ends[0], buffer, 1);
        msgctl(queue, IPC_RMID, NULL);
        _exit(0);
    }
    msgrcv(queue, buffer, 100, 0, 0);
}
static void call_none(void) {
    for (volatile long n = 0;; n++) {}
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
#define CALL(name) {#name, call_##name}
    CALL(read), CALL(readv), CALL(write), CALL(accept), CALL(recv), CALL(recvmsg), CALL(send), CALL(poll),
    CALL(poll_timed), CALL(ppoll), CALL(select), CALL(pselect), CALL(epoll_wait), CALL(epoll_pwait), CALL(nanosleep),
    CALL(nanosleep_rest), CALL(clock_nanosleep), CALL(pause), CALL(sigsuspend), CALL(sigwait), CALL(sigtimedwait),
    CALL(futex), CALL(futex_timed), CALL(mutex), CALL(wait4), CALL(waitid), CALL(flock), CALL(fcntl_lock),
    CALL(open_fifo), CALL(eventfd), CALL(timerfd), CALL(inotify), CALL(semop), CALL(msgrcv), CALL(none),
};

static void (*chosen)(void);
static int by_timer;

static void end_by_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    struct itimerspec soon = {.it_value = {0, 50000000}};
    timer_t timer;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
}

static void wait_here(void) {
    printf("%d\n", getpid());
    fflush(stdout);
    if (by_timer) {
        end_by_timer();
    }
    chosen();
    // Some waits end by themselves once the other end is gone.
    EXPECT(!"the wait was over");
}

static void *waits(void *arg) {
    if (arg) {
        wait_here();
    }
    chosen();
    return NULL;
}

static void *computes(void *arg) {
    call_none();
    return NULL;
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    for (unsigned n = 0; n < sizeof calls / sizeof *calls; n++) {
        if (strcmp(calls[n].name, argv[1]) == 0) {
            chosen = calls[n].call;
        }
    }
    EXPECT(chosen);
    prepare();
    const char *where = argv[2];
    pthread_t thread;
    if (strncmp(where, "itself", 6) == 0) {
        by_timer = 1;
    }
    if (strcmp(where, "child") == 0) {
        pid_t child = fork();
        if (child == 0) {
            wait_here();
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        return WTERMSIG(status);
    }
    if (strcmp(where, "thread") == 0 || strcmp(where, "itself-thread") == 0) {
        EXPECT(pthread_create(&thread, NULL, waits, &word) == 0);
        pthread_join(thread, NULL);
    }
    if (strcmp(where, "threads") == 0) {
        for (int n = 0; n < 4; n++) {
            EXPECT(pthread_create(&thread, NULL, n < 2 ? computes : waits, NULL) == 0);
        }
        EXPECT(pthread_create(&thread, NULL, waits, &word) == 0);
        pthread_join(thread, NULL);
    }
    wait_here();
}
