// Preloaded into a program: its handlers take SIGALRM, SIGPROF and SIGCHLD every half millisecond, while it computes and in its system calls.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static volatile unsigned long seen[65], mix;

static void take(int signal, siginfo_t *info, void *context) {
    seen[signal]++;
    mix = mix * 31 + signal + (unsigned long)info->si_code;
    (void)context;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = take;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGCHLD, &action, 0);
    struct itimerval time = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &time, 0);
    setitimer(ITIMER_PROF, &time, 0);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCHLD;
    timer_t id;
    if (timer_create(CLOCK_MONOTONIC, &event, &id) == 0) {
        struct itimerspec often = {{0, 500000}, {0, 500000}};
        timer_settime(id, 0, &often, 0);
    }
}
