// Signals that everybody blocks, sent while threads begin: each of them reaches a thread that waits for it.
// flags: -pthread
#include "case.h"
#include <pthread.h>
#include <stdatomic.h>
static atomic_int stop;
static sigset_t both;
static void *waits(void *arg) {
    siginfo_t info;
    EXPECT(sigwaitinfo(&both, &info) == SIGRTMIN + 3);
    return NULL;
}
static void *collects(void *count) {
    siginfo_t info;
    for (; *(int *)count < 1000; ++*(int *)count) {
        EXPECT(sigwaitinfo(&both, &info) == SIGRTMIN + 4);
    }
    return NULL;
}
static void *begins(void *arg) { return NULL; }
static void *spins(void *arg) {
    while (!atomic_load(&stop)) {}
    return NULL;
}
int main(void) {
    sigemptyset(&both);
    sigaddset(&both, SIGRTMIN + 3);
    sigaddset(&both, SIGRTMIN + 4);
    EXPECT(pthread_sigmask(SIG_BLOCK, &both, NULL) == 0);
    pthread_t spinner, thread, collector;
    EXPECT(pthread_create(&spinner, NULL, spins, NULL) == 0);
    // To the thread that begins.
    for (int n = 0; n < 100; n++) {
        EXPECT(pthread_create(&thread, NULL, waits, NULL) == 0);
        EXPECT(pthread_kill(thread, SIGRTMIN + 3) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    // To the process, in which another thread waits.
    int count = 0;
    EXPECT(pthread_create(&collector, NULL, collects, &count) == 0);
    for (int n = 0; n < 100; n++) {
        EXPECT(pthread_create(&thread, NULL, begins, NULL) == 0);
        for (int k = 0; k < 10; k++) {
            union sigval value = {.sival_int = k};
            EXPECT(k % 2 ? sigqueue(getpid(), SIGRTMIN + 4, value) == 0 : kill(getpid(), SIGRTMIN + 4) == 0);
        }
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    EXPECT(pthread_join(collector, NULL) == 0);
    atomic_store(&stop, 1);
    pthread_join(spinner, NULL);
    printf("%d of 1000\n", count);
}
