// What is left of alarms and interval timers, and what they were before: of one that runs, one that is over, in a child, behind execve.
#include "case.h"
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
static volatile int got;
static void count(int s, siginfo_t *i, void *c) { got++; }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
/* Seconds that are left, rounded up. */
static long left(const struct itimerval *timer) { return timer->it_value.tv_sec + (timer->it_value.tv_usec > 0); }
static void alarms(void) {
    EXPECT(alarm(100) == 0);
    EXPECT(alarm(50) == 100);
    EXPECT(alarm(0) == 50);
    EXPECT(alarm(0) == 0);
    alarm(70);
    pid_t child = fork();
    if (child == 0) _exit(alarm(0) != 0);
    int status;
    EXPECT(wait(&status) == child && status == 0);
    EXPECT(alarm(1) == 70);
    pause();
    EXPECT(got == 1 && alarm(0) == 0);
}
static void interval_timers(void) {
    const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}, signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
    for (int n = 0; n < 3; n++) {
        struct itimerval timer = {{30, 0}, {100, 0}}, old = {{9, 9}, {9, 9}};
        EXPECT(setitimer(timers[n], &timer, &old) == 0 && left(&old) == 0 && old.it_interval.tv_sec == 0);
        EXPECT(getitimer(timers[n], &old) == 0 && left(&old) == 100 && old.it_interval.tv_sec == 30);
        timer = (struct itimerval){{0, 2000}, {0, 1000}};
        EXPECT(setitimer(timers[n], &timer, &old) == 0 && left(&old) == 100 && old.it_interval.tv_sec == 30);
        on(signals[n], count, 0);
        for (got = 0; got < 5;) continue;
        EXPECT(getitimer(timers[n], &old) == 0 && old.it_interval.tv_usec == 2000 && left(&old) <= 1);
        EXPECT(setitimer(timers[n], &(struct itimerval){{0}}, &old) == 0 && old.it_interval.tv_usec == 2000);
        EXPECT(getitimer(timers[n], &old) == 0 && left(&old) == 0 && old.it_interval.tv_usec == 0);
    }
    EXPECT(setitimer(9, &(struct itimerval){{0}}, NULL) == -1 && errno == EINVAL);
    EXPECT(setitimer(ITIMER_REAL, (void *)8, NULL) == -1 && errno == EFAULT);
}
int main(int argc, char **argv) {
    on(SIGALRM, count, 0);
    if (argc == 1) {
        alarms();
        interval_timers();
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &(struct itimerval){{3600, 0}, {1, 0}}, NULL);
        char begun[32];
        snprintf(begun, sizeof begun, "%f", now());
        execl("/proc/self/exe", argv[0], begun, NULL);
    }
    /* A timer from before comes in its time; it would come after twice that. */
    pause();
    double took = now() - atof(argv[1]);
    EXPECT(got == 1 && took > 0.99);
    struct itimerval after;
    EXPECT(getitimer(ITIMER_REAL, &after) == 0 && left(&after) == 3600 && after.it_interval.tv_sec == 3600);
    puts("done");
}
