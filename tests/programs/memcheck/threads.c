// One thread gives back what another one still writes to.
// finds: write inside 0
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int *volatile shared;
static pthread_barrier_t turns;

static void *use(void *unused) {
    int *mine = shared;
    *mine = 1;
    pthread_barrier_wait(&turns);
    pthread_barrier_wait(&turns);
    *(volatile int *)mine = 2; /* HERE */
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&turns, 0, 2);
    shared = malloc(48);
    pthread_create(&thread, 0, use, 0);
    pthread_barrier_wait(&turns);
    free(shared);
    pthread_barrier_wait(&turns);
    pthread_join(thread, 0);
    puts("done");
    return 0;
}
