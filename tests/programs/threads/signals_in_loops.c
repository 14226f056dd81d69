/* Threads that compute without system calls, in loops of several kinds: a signal from another thread reaches them, a timer
 * that signals one of them does, and asynchronous cancellation ends them.
 *
 * test: 1
 * soak: 50
 */
#include "threads.h"
#include <sys/syscall.h>
#include <time.h>

enum { LOOPS = 6, BYTES = 1 << 16 };
static volatile unsigned long counter;
static atomic_long shared;
static char from[BYTES], to[BYTES];
static atomic_int ready;
static volatile sig_atomic_t caught;
static volatile pid_t tid;

static void handle(int signal)
{
    (void)signal;
    caught++;
}

static void *run(void *number)
{
    tid = (pid_t)syscall(SYS_gettid);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    atomic_store(&ready, 1);
    switch ((long)number) {
    case 0:
        for (;;)
            asm volatile("");
    case 1:
        for (;;)
            counter++;
    case 2:
        for (;;)
            atomic_fetch_add(&shared, 1);
    case 3:
        for (;;)
            asm volatile("rdtsc" : : : "rax", "rdx");
    case 4:
        for (;;)
            memcpy(to, from, sizeof to);
    default:
        for (;;) {
            void *source = from, *target = to;
            long count = BYTES;
            asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
        }
    }
}

static void expect(int count)
{
    while (caught < count)
        usleep(100);
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1);
    struct sigaction action = { .sa_handler = handle };
    sigaction(SIGUSR1, &action, NULL);
    for (long i = 0; i < rounds * LOOPS; i++) {
        pthread_t thread;
        void *result;
        atomic_store(&ready, 0);
        caught = 0;
        ENSURE(pthread_create(&thread, NULL, run, (void *)(i % LOOPS)) == 0);
        while (!atomic_load(&ready))
            usleep(100);
        pthread_kill(thread, SIGUSR1);
        expect(1);
        struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
        event._sigev_un._tid = tid;
        struct itimerspec once = { .it_value = { .tv_nsec = 1000000 } };
        timer_t timer;
        ENSURE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        ENSURE(timer_settime(timer, 0, &once, NULL) == 0);
        expect(2);
        timer_delete(timer);
        ENSURE(pthread_cancel(thread) == 0);
        ENSURE(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    puts("done");
}
