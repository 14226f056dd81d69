// Threads that write to memory of their own, and to memory of all, without an end, until one of them crashes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { WRITERS = 4, WORDS = 1 << 12 };

static uint64_t own[WRITERS][WORDS];
static _Atomic uint64_t common[WORDS];
static atomic_int ready;

static void *writer(void *number) {
    uint64_t *mine = own[(long)number], *heap = calloc(WORDS, 8);
    for (uint64_t n = 1;; n++) {
        mine[n % WORDS] = n;
        heap[n * 7 % WORDS] = n;
        common[n * 13 % WORDS] += n;
        if (n == WORDS) ready++;
    }
    return 0;
}

int main(void) {
    for (long n = 0; n < WRITERS; n++) {
        pthread_t thread;
        pthread_create(&thread, 0, writer, (void *)n);
    }
    while (ready < WRITERS) {}
    volatile int *nothing = 0;
    return *nothing;
}
