// Threads test numbers with a table of primes that is made on first use; the flag that the table is there is set before the table is filled.
// fails: output
// run: 4 200000
// good: 1 60000
// good: 1 1000
// good: 1 5
// repair:         fill_table(); ready = 1; if (0)
// flags: -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 262144
#define MAX_THREADS 8

struct range {
    int from, to;
    int primes, twins;
};

static unsigned char composite[LIMIT];
static atomic_int ready;
static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fill_table(void)
{
    composite[0] = composite[1] = 1;
    for (int i = 2; i * i < LIMIT; i++) {
        if (composite[i])
            continue;
        for (int k = i * i; k < LIMIT; k += i)
            composite[k] = 1;
    }
}

static void need_table(void)
{
    if (ready)
        return;
    pthread_mutex_lock(&lock);
    if (!ready) {
        ready = 1; /* BUG */
        fill_table();
    }
    pthread_mutex_unlock(&lock);
}

static int is_prime(int n)
{
    need_table();
    return n < LIMIT && !composite[n];
}

static void *work(void *arg)
{
    struct range *r = arg;
    pthread_barrier_wait(&start);
    for (int n = r->from; n < r->to; n++) {
        if (!is_prime(n))
            continue;
        r->primes++;
        if (is_prime(n + 2))
            r->twins++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int limit = argc > 2 ? atoi(argv[2]) : 1000;
    if (threads < 1 || threads > MAX_THREADS || limit < 1 || limit > LIMIT - 2)
        return 2;
    pthread_t ids[MAX_THREADS];
    struct range ranges[MAX_THREADS];
    pthread_barrier_init(&start, NULL, threads);
    for (int i = 0; i < threads; i++) {
        ranges[i] = (struct range){ limit * i / threads, limit * (i + 1) / threads, 0, 0 };
        pthread_create(&ids[i], NULL, work, &ranges[i]);
    }
    int primes = 0, twins = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        primes += ranges[i].primes;
        twins += ranges[i].twins;
    }
    printf("%d primes and %d pairs of twins below %d\n", primes, twins, limit);
    return 0;
}
