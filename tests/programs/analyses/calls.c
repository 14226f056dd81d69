// Calls functions in all ways, and says afterwards what was called with what, and what came back, in each thread.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

enum { MOST = 400, THREADS = 3 };
static __thread struct {
    int count;
    char text[MOST][64];
} notes;
static __thread jmp_buf back;

#define NOTE(...) snprintf(notes.text[notes.count++], sizeof notes.text[0], __VA_ARGS__)

__attribute__((noipa)) long again(long depth, long value) {
    NOTE("again %ld %ld", depth, value);
    long result = depth == 0 ? value : again(depth - 1, value * 3) + depth;
    NOTE("= %ld", result);
    return result;
}

__attribute__((noipa)) long six(long a, long b, long c, long d, long e, long f) {
    NOTE("six %ld %ld %ld %ld %ld %ld", a, b, c, d, e, f);
    long result = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
    NOTE("= %ld", result);
    return result;
}

// Ends in the other function, which returns to the caller.
__attribute__((noipa)) long passes_on(long value) {
    NOTE("passes_on %ld", value);
    return again(2, value);
}

__attribute__((noipa)) long jumps(long value) {
    NOTE("jumps %ld", value);
    longjmp(back, 1);
}

static void handler(int signal) {
    again(1, signal);
}

static void all(long seed) {
    again(3, seed);
    long (*volatile by_pointer)(long, long, long, long, long, long) = six;
    by_pointer(seed, 2, 3, 4, 5, 6);
    passes_on(seed);
    for (int i = 0; i < 3; i++) {
        if (setjmp(back) == 0) {
            jumps(seed + i);
        }
    }
    again(0, seed);
    raise(SIGUSR1);
    six(1, 2, 3, 4, 5, seed);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *run(void *seed) {
    for (int i = 0; i < 5; i++) {
        all((long)seed + i);
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < notes.count; i++) {
        printf("%ld %s\n", (long)seed, notes.text[i]);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    signal(SIGUSR1, handler);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], 0, run, (void *)(1000 * (i + 1)));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
    }
    return 0;
}
