/* Memory that somebody else changes: another process by a shared mapping, and the kernel when a thread ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    long price;
    long count;
};

static struct shared *volatile shared;
static volatile int alive;
static volatile long total, rest, again;

static void *thread(void *unused) {
    (void)unused;
    alive = 7; /* lives */
    syscall(SYS_set_tid_address, &alive);
    return NULL;
}

int main(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->price = 5; /* own price */
    shared->count = 3; /* own count */
    again = shared->price; /* keeps */
    pid_t child = fork();
    if (child == 0) {
        shared->price = 11; /* child's price */
        _exit(0);
    }
    waitpid(child, NULL, 0);
    total = shared->price * shared->count; /* total */
    pthread_t id;
    alive = 1;
    pthread_create(&id, NULL, thread, NULL);
    while (alive != 0) { /* waits */
        usleep(1000);
    }
    rest = alive + 4; /* rest */
    printf("%ld %ld %ld\n", total, rest, again);
    abort();
}
