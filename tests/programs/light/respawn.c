/* Processes that share memory, of which some are forked all the time, and end soon, or later; some of these fork. Argument: seconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 65536

static struct shared {
    pthread_mutex_t lock;
    long rounds;
    unsigned char text[SIZE];
} *shared;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void work(int worker, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&shared->lock);
        long round = ++shared->rounds;
        shared->text[(round * 7919 + worker) % SIZE] += worker + round;
        pthread_mutex_unlock(&shared->lock);
        usleep(600);
    }
}

static void begin(int worker)
{
    if (fork() != 0) return;
    work(worker, worker % 4 == 0 ? 2000 : 100);
    if (worker % 8 == 0 && fork() == 0) {
        work(100 + worker, 500);
        exit(0);
    }
    long sum = 0;
    for (int i = 0; i < SIZE; i++) sum = sum * 31 + shared->text[i];
    printf("%d %ld\n", worker, sum & 0xffff);
    exit(0);
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 3);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &attributes);
    for (int worker = 1; now() < end; worker++) {
        begin(worker);
        usleep(250000);
        while (waitpid(-1, NULL, WNOHANG) > 0);
    }
    while (wait(NULL) > 0);
    printf("over %ld\n", shared->rounds);
}
