// Two threads that take money from an account on the heap. With `torn`, one of them comes between what the other one reads and writes; with
// `handler`, a signal's handler does.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct account {
    long number, balance;
};

static struct account *account;
static long taken;
static sem_t has_read, has_taken;
static int is_torn, is_handled;

static void take(long amount)
{
    account->balance -= amount; /* TAKE */
}

static void *other(void *unused)
{
    sem_wait(&has_read);
    take(10);
    sem_post(&has_taken);
    return unused;
}

static void count(int signal)
{
    (void)signal;
    taken++; /* COUNT */
}

static void withdraw(void)
{
    long balance = account->balance; /* READ */
    long before = taken; /* BEFORE */
    if (is_torn) {
        sem_post(&has_read);
        sem_wait(&has_taken);
    }
    if (is_handled)
        raise(SIGUSR1);
    taken = before + 1; /* AFTER */
    account->balance = balance - 1; /* WRITE */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    is_torn = argc > 1 && !strcmp(argv[1], "torn");
    is_handled = argc > 1 && !strcmp(argv[1], "handler");
    signal(SIGUSR1, count);
    sem_init(&has_read, 0, 0);
    sem_init(&has_taken, 0, 0);
    account = malloc(sizeof *account); /* ALLOCATES */
    account->balance = 100;
    pthread_create(&thread, NULL, other, NULL);
    withdraw();
    if (!is_torn)
        sem_post(&has_read);
    pthread_join(thread, NULL);
    if (!is_handled)
        raise(SIGUSR1);
    printf("%ld %ld\n", account->balance, taken);
    return 0;
}
