/* Signals to the process while threads end, block them, or wait for them by sigwait: none is lost, and each comes to one of those that may take it, never to one
 * behind the call by which that has blocked it.
 *
 * test: 15
 * soak: 2000
 */
#include "threads.h"
#include <errno.h>

static int answers[2], starts[2];
static atomic_int counts[65], late, stop;
static _Thread_local volatile sig_atomic_t blocked;

static void handle(int signal)
{
    atomic_fetch_add(&counts[signal], 1);
    if (blocked)
        atomic_fetch_add(&late, 1);
}

static void change(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (how == SIG_UNBLOCK)
        blocked = 0;
    ENSURE(pthread_sigmask(how, &set, NULL) == 0);
    if (how == SIG_BLOCK)
        blocked = 1;
}

/* Sends two and ends, with both blocked. */
static void *send(void *unused)
{
    char byte;
    change(SIG_BLOCK);
    ENSURE(read(starts[0], &byte, 1) == 1);
    ENSURE(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0);
    ENSURE(write(answers[1], "", 1) == 1);
    return unused;
}

/* May take a signal in any instruction until it ends. */
static void *end(void *unused)
{
    return unused;
}

/* Blocks them and lets them in. */
static void *turn(void *unused)
{
    while (!atomic_load(&stop)) {
        change(SIG_BLOCK);
        change(SIG_UNBLOCK);
    }
    change(SIG_BLOCK);
    return unused;
}

static void await(int signal, int count)
{
    for (int n = 0; atomic_load(&counts[signal]) < count; n++) {
        ENSURE(n < 20000);
        usleep(500);
    }
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 15);
    struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
    ENSURE(pipe(answers) == 0 && pipe(starts) == 0);
    ENSURE(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    for (int n = 1; n <= rounds; n++) {
        pthread_t sender;
        char byte;
        ENSURE(pthread_create(&sender, NULL, send, NULL) == 0);
        ENSURE(write(starts[1], "", 1) == 1 && read(answers[0], &byte, 1) == 1);
        ENSURE(pthread_join(sender, NULL) == 0);
        await(SIGUSR1, n);
        await(SIGUSR2, n);
    }
    puts("sent by threads that end");

    /* The main thread takes none: threads that end do, or, in the end, one that stays. */
    pthread_t turning;
    change(SIG_BLOCK);
    atomic_store(&counts[SIGUSR1], 0);
    for (int n = 1; n <= 10 * rounds; n++) {
        sigset_t none;
        sigemptyset(&none);
        pthread_t ending;
        change(SIG_UNBLOCK);
        ENSURE(pthread_create(&ending, NULL, end, NULL) == 0);
        change(SIG_BLOCK);
        ENSURE(kill(getpid(), SIGUSR1) == 0);
        ENSURE(pthread_join(ending, NULL) == 0);
        /* It is pending still, or was delivered. */
        change(SIG_UNBLOCK);
        change(SIG_BLOCK);
        ENSURE(atomic_load(&counts[SIGUSR1]) == n);
    }
    puts("taken by threads that end");

    change(SIG_UNBLOCK);
    change(SIG_BLOCK);
    atomic_store(&counts[SIGUSR2], 0);
    ENSURE(pthread_create(&turning, NULL, turn, NULL) == 0);
    for (int n = 1; n <= 20 * rounds; n++) {
        ENSURE(kill(getpid(), SIGUSR2) == 0);
        await(SIGUSR2, n);
    }
    atomic_store(&stop, 1);
    ENSURE(pthread_join(turning, NULL) == 0);
    ENSURE(atomic_load(&late) == 0);
    puts("taken while unblocked");
    return 0;
}
