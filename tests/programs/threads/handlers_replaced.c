/* A thread gets signals while another one changes what they do: each time, handler, stack and mask are those of one sigaction.
 *
 * test: 2000
 * soak: 1000000
 */
#include "threads.h"
#include <sys/syscall.h>

enum { STACK = 65536 };
static atomic_int ready, stop, calls;
static _Thread_local char *stack;

static int blocks(int signal)
{
    sigset_t now;
    ENSURE(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    return sigismember(&now, signal);
}

static int on_stack(void)
{
    char here;
    return stack && &here >= stack && &here < stack + STACK;
}

static void plain(int signal, siginfo_t *info, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    ENSURE(info->si_signo == signal && !on_stack() && !blocks(SIGUSR2) && blocks(signal));
}

static void other(int signal, siginfo_t *info, void *context)
{
    (void)context;
    atomic_fetch_add(&calls, 1);
    ENSURE(info->si_signo == signal && on_stack() && blocks(SIGUSR2) && !blocks(signal));
}

static void *get(void *unused)
{
    (void)unused;
    stack = malloc(STACK);
    stack_t own = { .ss_sp = stack, .ss_size = STACK };
    ENSURE(sigaltstack(&own, NULL) == 0);
    long process = getpid(), thread = syscall(SYS_gettid);
    atomic_store(&ready, 1);
    while (!atomic_load(&stop)) {
        ENSURE(syscall(SYS_tgkill, process, thread, SIGUSR1) == 0);
        ENSURE(syscall(SYS_tgkill, process, thread, SIGURG) == 0);
        ENSURE(syscall(SYS_tgkill, process, thread, SIGRTMIN) == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 2000);
    struct sigaction actions[] = {
        { .sa_sigaction = plain, .sa_flags = SA_SIGINFO | SA_RESTART },
        { .sa_handler = SIG_IGN },
        { .sa_sigaction = other, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER },
        { .sa_handler = SIG_DFL },
    };
    sigaddset(&actions[2].sa_mask, SIGUSR2);
    ENSURE(sigaction(SIGUSR1, &actions[1], NULL) == 0 && sigaction(SIGRTMIN, &actions[1], NULL) == 0);
    pthread_t thread;
    ENSURE(pthread_create(&thread, NULL, get, NULL) == 0);
    while (!atomic_load(&ready))
        usleep(100);
    for (long n = 0; n < rounds || atomic_load(&calls) < 10; n++) {
        ENSURE(sigaction(SIGUSR1, &actions[n % 3], NULL) == 0);
        ENSURE(sigaction(SIGRTMIN, &actions[(n + 1) % 3], NULL) == 0);
        /* By default, nothing comes of this one. */
        ENSURE(sigaction(SIGURG, &actions[n % 4], NULL) == 0);
    }
    atomic_store(&stop, 1);
    ENSURE(pthread_join(thread, NULL) == 0);
    puts("end");
    return 0;
}
