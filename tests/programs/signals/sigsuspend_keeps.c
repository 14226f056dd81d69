// What sigsuspend keeps blocked does not end it, whether it waits already or comes meanwhile; what it lets in does, once, and the mask is
// the old one behind it.
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int all[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, 34};
#define COUNT 5
static volatile int handled[65];

static void handler(int signal)
{
    handled[signal]++;
}

static void show(const char *what)
{
    sigset_t set;
    printf("%s: handled", what);
    for (int i = 0; i < COUNT; i++)
        printf(" %d", handled[all[i]]);
    sigprocmask(SIG_BLOCK, NULL, &set);
    printf(", blocked");
    for (int i = 0; i < COUNT; i++)
        printf(" %d", sigismember(&set, all[i]));
    sigpending(&set);
    printf(", pending");
    for (int i = 0; i < COUNT; i++)
        printf(" %d", sigismember(&set, all[i]));
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    sigset_t blocked, old;
    sigemptyset(&blocked);
    for (int i = 0; i < COUNT; i++) {
        signal(all[i], handler);
        sigaddset(&blocked, all[i]);
    }
    for (int wanted = 0; wanted < COUNT; wanted++) {
        sigset_t during = blocked;
        sigdelset(&during, all[wanted]);
        sigprocmask(SIG_BLOCK, &blocked, &old);
        pid_t me = getpid(), child = fork();
        if (child == 0) {
            for (int i = 0; i < COUNT; i++) {
                if (i != wanted) {
                    usleep(10000);
                    kill(me, all[i]);
                }
            }
            usleep(20000);
            kill(me, all[wanted]);
            _exit(0);
        }
        int result = sigsuspend(&during);
        printf("result %d\n", result);
        show("they came meanwhile");
        waitpid(child, NULL, 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        show("open");
        sigprocmask(SIG_BLOCK, &blocked, NULL);
        for (int i = 0; i < COUNT; i++)
            raise(all[i]);
        result = sigsuspend(&during);
        printf("result %d\n", result);
        show("they waited");
        sigprocmask(SIG_SETMASK, &old, NULL);
        show("open");
    }
    return 0;
}
