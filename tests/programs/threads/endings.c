/* Processes whose threads are in all kinds of places when one of them ends the process: in a loop, in system calls that wait
 * or do not, between threads that take a mutex from each other.
 *
 * test: 2
 * soak: 100
 */
#include "threads.h"
#include <semaphore.h>
#include <sys/wait.h>

static sem_t semaphore;
static volatile long counter;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static void *wait_for_ever(void *unused)
{
    sem_wait(&semaphore);
    return unused;
}

static void *compute(void *unused)
{
    for (;;)
        counter++;
    return unused;
}

static void *sleep_shortly(void *unused)
{
    for (;;)
        usleep(50);
    return unused;
}

static void *lock(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *receive(void *unused)
{
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        continue;
    return unused;
}

static void *send(void *unused)
{
    while (write(ends[1], "", 1) == 1)
        continue;
    return unused;
}

static void end(int kind)
{
    static void *(*const functions[])(void *) = { wait_for_ever, compute, sleep_shortly, lock, lock, receive, send };
    pthread_t thread;
    ENSURE(pipe(ends) == 0);
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        ENSURE(pthread_create(&thread, NULL, functions[i], NULL) == 0);
    usleep(10000 + (unsigned)getpid() * 731 % 5000);
    switch (kind) {
    case 0:
        _exit(3);
    case 1:
        kill(getpid(), SIGTERM);
        break;
    case 2:
        *(volatile int *)8 = 1;
        break;
    default:
        pthread_kill(thread, SIGTERM);
    }
    pause();
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1);
    for (long i = 0; i < rounds * 4; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            end((int)(i % 4));
        ENSURE(waitpid(child, &status, 0) == child);
        printf("%#x\n", status & ~0x80);
    }
}
