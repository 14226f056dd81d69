/* Processes that share memory: two workers take turns at a lock in it, one sleeps until the end, and the parent waits. Arguments: seconds; with a second one, a worker crashes at the end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (1 << 20)

struct shared {
    pthread_mutex_t lock;
    long rounds[3];
    unsigned char text[SIZE];
};

static struct shared *shared;
static unsigned char own[SIZE];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static long round_of(int worker)
{
    pthread_mutex_lock(&shared->lock);
    long round = ++shared->rounds[worker];
    long at = (round * 7919 + worker) % SIZE;
    shared->text[at] += own[at] + 1;
    own[(at * 31) % SIZE] = shared->text[(at * 17) % SIZE] + worker;
    pthread_mutex_unlock(&shared->lock);
    return round;
}

static void work(int worker, double end, int crashes)
{
    char line[100];
    while (now() < end) {
        long round = round_of(worker);
        if (round % 500 == 0) {
            long sum = 0;
            for (int i = 0; i < SIZE; i++) sum += shared->text[i] * (i % 7) + own[i];
            snprintf(line, sizeof line, "%d: %ld of %ld, %ld\n", worker, round, shared->rounds[1 - worker], sum);
            if (write(1, line, strlen(line)) < 0) exit(1);
        }
        usleep(400);
    }
    if (crashes) *(volatile long *)round_of(worker) = 1;
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
    for (int worker = 0; worker < 3; worker++)
        if (fork() == 0) {
            if (worker == 2) {
                usleep((end - now()) * 1e6);
                round_of(2);
                exit(0);
            }
            work(worker, end, argc > 2 && worker == 1);
        }
    int failed = 0, status;
    while (wait(&status) > 0) failed |= status != 0;
    printf("%ld %d\n", shared->rounds[2], failed);
    return failed;
}
