// Queued real-time signals while the program computes, changes its mask, waits with one, and makes short system calls; and other
// signals beside them: each comes once, in its order.
#include "case.h"
#include <poll.h>
#define EACH 300
static volatile uint64_t next, wrong, others;
static void queued(int s, siginfo_t *i, void *c) {
    if (i->si_value.sival_int != (int)next)
        wrong++;
    next++;
}
static void other(int s, siginfo_t *i, void *c) { others++; }
int main(void) {
    on(SIGRTMIN + 5, queued, 0);
    on(SIGUSR1, other, 0);
    pid_t parent = getpid();
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    for (int way = 0; way < 4; way++) {
        next = 0;
        pid_t child = fork();
        if (child == 0) {
            for (int n = 0; n < EACH; n++) {
                union sigval v = {.sival_int = n};
                while (sigqueue(parent, SIGRTMIN + 5, v) != 0)
                    usleep(100);
                if (n % 3 == 0)
                    kill(parent, SIGUSR1);
                if (n % 7 == 0)
                    usleep(50);
            }
            _exit(0);
        }
        while (next < EACH) {
            if (way == 1)
                sigprocmask(SIG_BLOCK, &all, NULL), work(5), sigprocmask(SIG_SETMASK, &none, NULL);
            else if (way == 2)
                sigprocmask(SIG_BLOCK, &all, NULL), next < EACH ? ppoll(NULL, 0, NULL, &none) : 0, sigprocmask(SIG_SETMASK, &none, NULL);
            else if (way == 3)
                getppid();
            else
                work(50);
        }
        int status;
        while (waitpid(child, &status, 0) != child)
            ;
        printf("%d: %lu wrong\n", way, wrong);
    }
    printf("others %d\n", others > 0);
}
