// Threads wait in all kinds of system calls while others fork, for which the recorder stops them. A signal ends each wait, and nothing else does.
// flags: -pthread
// record: --no-follow
// intervals: no
#include "case.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>

enum { SIGNALS = 12 };

static atomic_int handled, finished, over;
static int ends[2], pair[2], epoll, queue, semaphores, word;
static unsigned long events;
static pid_t first, child;
static sigset_t none, usr1;
static char buffer[100];

static void count(int signal, siginfo_t *info, void *context) { handled++; }

static void *forks(void *arg) {
    while (!over) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(0);
        }
        EXPECT(pid > 0 && waitpid(pid, NULL, 0) == pid);
    }
    return NULL;
}

// Waits without an end. Those with a set are called with the signal blocked.
static long in_read(void) { return read(ends[0], buffer, 1); }
static long in_futex(void) { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }
static long in_wait4(void) { return waitpid(child, NULL, 0); }
static long in_pause(void) { return pause(); }
static long in_poll(void) { return poll(NULL, 0, -1); }
static long in_ppoll(void) { return ppoll(NULL, 0, NULL, &none); }
static long in_pselect(void) { return pselect(0, NULL, NULL, NULL, NULL, &none); }
static long in_epoll_wait(void) { return epoll_wait(epoll, &(struct epoll_event){0}, 1, -1); }
static long in_epoll_pwait(void) { return epoll_pwait(epoll, &(struct epoll_event){0}, 1, -1, &none); }
static long in_sigsuspend(void) { return sigsuspend(&none); }
static long in_sigwaitinfo(void) {
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    return sigwaitinfo(&other, NULL);
}
static long in_recv(void) { return recv(pair[0], buffer, 1, 0); }
static long in_msgrcv(void) { return msgrcv(queue, buffer, 1, 0, 0); }
static long in_semop(void) { return semop(semaphores, &(struct sembuf){0, -1, 0}, 1); }
static long in_io_getevents(void) { return syscall(SYS_io_getevents, events, 1L, 1L, buffer, NULL); }

static const struct {
    long (*wait)(void);
    int blocked;
} endless[] = {
    {in_read}, {in_futex}, {in_wait4}, {in_pause}, {in_poll}, {in_ppoll, 1}, {in_pselect, 1}, {in_epoll_wait},
    {in_epoll_pwait, 1}, {in_sigsuspend, 1}, {in_sigsuspend}, {in_sigwaitinfo}, {in_recv}, {in_msgrcv}, {in_semop},
    {in_io_getevents},
};

// Sends the first thread a signal at any time, and waits until it is handled.
static void send_one(unsigned *random) {
    *random = *random * 1103515245 + 12345;
    nanosleep(&(struct timespec){0, *random % 1500000}, NULL);
    int before = handled;
    EXPECT(syscall(SYS_tgkill, getpid(), first, SIGUSR1) == 0);
    while (handled == before) {
        sched_yield();
    }
}

// Does so until that is enough: the last one may come before the wait that it is to end.
static void *sends(void *arg) {
    for (unsigned random = 1; !finished;) {
        send_one(&random);
    }
    return NULL;
}

static void *sends_and_writes(void *arg) {
    unsigned random = 1;
    for (int n = 0; n < SIGNALS; n++) {
        send_one(&random);
    }
    EXPECT(write(ends[1], "x", 1) == 1);
    return NULL;
}

static pthread_t start(void *(*run)(void *)) {
    pthread_t thread;
    sigset_t before;
    EXPECT(pthread_sigmask(SIG_BLOCK, &usr1, &before) == 0);
    EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
    EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return thread;
}

static void ended_by_signals(long (*wait)(void), int blocked) {
    handled = finished = 0;
    EXPECT(pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &usr1, NULL) == 0);
    pthread_t sender = start(sends);
    while (handled < SIGNALS) {
        int before = handled;
        EXPECT(wait() == -1 && errno == EINTR);
        EXPECT(handled > before);
    }
    finished = 1;
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
    EXPECT(pthread_join(sender, NULL) == 0);
}

static const struct timespec soon = {0, 40000000};

static void end_by_themselves(void) {
    struct timespec rest = {7, 7};
    EXPECT(nanosleep(&soon, &rest) == 0 && rest.tv_sec == 7 && rest.tv_nsec == 7);
    EXPECT(clock_nanosleep(CLOCK_REALTIME, 0, &soon, &rest) == 0 && rest.tv_sec == 7 && rest.tv_nsec == 7);
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    EXPECT(poll(NULL, 0, 40) == 0);
    EXPECT(ppoll(NULL, 0, &soon, NULL) == 0);
    EXPECT(select(0, NULL, NULL, NULL, &(struct timeval){0, 40000}) == 0);
    EXPECT(epoll_wait(epoll, &(struct epoll_event){0}, 1, 40) == 0);
    EXPECT(sigtimedwait(&usr1, NULL, &soon) == -1 && errno == EAGAIN);
    EXPECT(semtimedop(semaphores, &(struct sembuf){0, -1, 0}, 1, &soon) == -1 && errno == EAGAIN);
    EXPECT(syscall(SYS_io_getevents, events, 1L, 1L, buffer, &soon) == 0);
    struct timeval time = {0, 40000};
    EXPECT(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    EXPECT(recv(pair[1], buffer, 1, 0) == -1 && errno == EAGAIN);
}

int main(void) {
    first = syscall(SYS_gettid);
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    EXPECT(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct timeval long_time = {1000, 0};
    EXPECT(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time) == 0);
    EXPECT((epoll = epoll_create1(0)) >= 0);
    EXPECT((queue = msgget(IPC_PRIVATE, 0600)) >= 0 && (semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    EXPECT(syscall(SYS_io_setup, 4, &events) == 0);
    // It ends with this process, which holds the other end.
    int held[2];
    EXPECT(pipe(held) == 0);
    if ((child = fork()) == 0) {
        close(held[1]);
        _exit(read(held[0], buffer, 1) != 0);
    }
    pthread_t forkers[2] = {start(forks), start(forks)};
    on(SIGUSR1, count, 0);
    for (unsigned n = 0; n < sizeof endless / sizeof *endless; n++) {
        ended_by_signals(endless[n].wait, endless[n].blocked);
    }
    end_by_themselves();
    // Handlers that do not end a wait.
    on(SIGUSR1, count, SA_RESTART);
    handled = 0;
    pthread_t sender = start(sends_and_writes);
    EXPECT(read(ends[0], buffer, 1) == 1 && handled == SIGNALS);
    EXPECT(pthread_join(sender, NULL) == 0);
    over = 1;
    EXPECT(pthread_join(forkers[0], NULL) == 0 && pthread_join(forkers[1], NULL) == 0);
    EXPECT(msgctl(queue, IPC_RMID, NULL) == 0 && semctl(semaphores, 0, IPC_RMID) == 0);
    puts("done");
}
