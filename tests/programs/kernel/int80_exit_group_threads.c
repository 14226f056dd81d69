// The process ends by the 32-bit system call `exit_group`, while it has threads; one of them has ended by the 32-bit `exit`.
// flags: -pthread
#include "case.h"
#include <pthread.h>

static volatile long counter;

static void *compute(void *unused) {
    for (;;)
        counter++;
    return unused;
}

static void *wait_on(void *unused) {
    pause();
    return unused;
}

static void *exits(void *unused) {
    asm volatile("int $0x80" ::"a"(1), "b"(3) : "memory");
    return (void *)1;
}

int main(void) {
    pthread_t id;
    void *result = NULL;
    pthread_create(&id, NULL, compute, NULL);
    pthread_create(&id, NULL, wait_on, NULL);
    pthread_create(&id, NULL, exits, NULL);
    pthread_join(id, &result);
    while (!counter)
        ;
    printf("joined, %p\n", result);
    fflush(stdout);
    asm volatile("int $0x80" ::"a"(252), "b"(7) : "memory");
    return 1;
}
