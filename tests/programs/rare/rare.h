// What the programs have in common: two threads that come to their faults at different times as a rule, since each has something to do before.
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A thread's own work, which no other one sees: some microseconds for each 1000.
static inline unsigned work(unsigned amount)
{
    unsigned value = amount;
    for (unsigned i = 0; i < amount; i++) {
        value = value * 1664525 + 1013904223;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static inline void run_two(void *(*first)(void *), void *(*second)(void *))
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

// What waits for ever ends by SIGALRM.
static inline void limit_time(void)
{
    alarm(10);
}
