// Threads of two kinds, in an order that timing decides; one of them does more if the argument is large.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int limit;
static long results[3];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long done;

static void *count(void *number) {
    long n = (long)number, sum = 0;
    for (int i = 0; i < 100; i++) {
        if (n == 1 && i == limit) // one thread parts here
            sum += 1000;
        sum += i;
        pthread_mutex_lock(&lock);
        done++;
        pthread_mutex_unlock(&lock);
    }
    results[n] = sum;
    return NULL;
}

static void *idle(void *unused) {
    (void)unused;
    results[2] = getpid(); // what the kernel returned
    return NULL;
}

int main(int argc, char **argv) {
    limit = argc > 1 ? atoi(argv[1]) : 200;
    pthread_t threads[3];
    for (long n = 0; n < 2; n++)
        pthread_create(&threads[n], NULL, count, (void *)n);
    pthread_create(&threads[2], NULL, idle, NULL);
    for (int n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    if (results[1] - results[0] > 500)
        abort();
    printf("%ld\n", results[0]);
    return 0;
}
