// si_code and what belongs to it, for kill, tgkill, sigqueue, POSIX timers, and faults.
#include "case.h"
static volatile int code, value, overrun;
static volatile pid_t pid;
static volatile uid_t uid;
static void *addr;
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) {
    code = i->si_code, pid = i->si_pid, uid = i->si_uid, value = i->si_value.sival_int, overrun = i->si_overrun;
}
static void fault(int s, siginfo_t *i, void *c) {
    code = i->si_code, addr = i->si_addr;
    siglongjmp(out, 1);
}
#define FAULT(action)                                                                                                  \
    if (sigsetjmp(out, 1) == 0) {                                                                                      \
        action;                                                                                                        \
        EXPECT(!"reached");                                                                                            \
    }
int main(void) {
    on(SIGUSR1, handler, 0);
    on(SIGUSR2, handler, 0);
    on(SIGSEGV, fault, 0);
    kill(getpid(), SIGUSR1);
    printf("kill %d %d %d\n", code, pid == getpid(), uid == getuid());
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    printf("tgkill %d %d\n", code, pid == getpid());
    union sigval v = {.sival_int = 77};
    sigqueue(getpid(), SIGUSR2, v);
    printf("sigqueue %d %d\n", code, value);
    timer_t timer;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 5};
    EXPECT(timer_create(CLOCK_MONOTONIC, &e, &timer) == 0);
    struct itimerspec t = {{0, 0}, {0, 1000000}};
    code = 0;
    EXPECT(timer_settime(timer, 0, &t, NULL) == 0);
    while (code != SI_TIMER)
        work(10);
    printf("timer %d %d\n", code, value);
    FAULT(*(volatile int *)8 = 1);
    printf("null %d %p\n", code, addr);
    FAULT(*(volatile char *)main = 1);
    printf("text %d %d\n", code, addr == (void *)main);
    volatile char *wild = (char *)0x8000000000000000;
    FAULT(*wild = 1);
    printf("non-canonical %d %p\n", code, addr);
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data[0] = 0xc3;
    FAULT(((void (*)(void))data)());
    printf("no exec %d %d\n", code, addr == data);
    FAULT(((void (*)(void))0x10)());
    printf("jump %d %p\n", code, addr);
}
