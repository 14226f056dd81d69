/* What the programs of this folder share. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An argument of the program, as a number. */
static inline long argument(int argc, char **argv, int n, long otherwise)
{
    return n < argc ? atol(argv[n]) : otherwise;
}

/* Ends the program with a message unless the condition holds. */
#define ENSURE(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Runs `count` threads to their ends; each gets its number. */
static inline void run_threads(int count, void *(*function)(void *))
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    for (long i = 0; i < count; i++)
        ENSURE(pthread_create(&threads[i], NULL, function, (void *)i) == 0);
    for (int i = 0; i < count; i++)
        ENSURE(pthread_join(threads[i], NULL) == 0);
    free(threads);
}

/* Waits a little, so that others go on also where there are fewer processors than threads. */
static inline void relax(unsigned *turns)
{
    if (++*turns % 64 == 0)
        sched_yield();
    else
        __builtin_ia32_pause();
}

/* Waits until all of `count` threads have come to the end of round `round`, counted from 0. */
static inline void meet(atomic_long *arrived, long count, long round)
{
    unsigned turns = 0;
    atomic_fetch_add(arrived, 1);
    while (atomic_load_explicit(arrived, memory_order_acquire) < count * (round + 1))
        relax(&turns);
}
