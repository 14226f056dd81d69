// What the small programs share. A program prints the same whenever it runs; EXPECT is for what must hold everywhere.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno);                          \
            exit(99);                                                                                                  \
        }                                                                                                              \
    } while (0)

// This machine cannot show what the program is about.
static inline __attribute__((noreturn)) void skip(const char *why) {
    printf("%s\n", why);
    exit(77);
}

typedef void (*action_t)(int, siginfo_t *, void *);

static inline void on(int signal, action_t action, int flags) {
    struct sigaction sa = {.sa_sigaction = action, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&sa.sa_mask);
    EXPECT(sigaction(signal, &sa, NULL) == 0);
}

// Two pages, of which the second is not accessible; returns the start of the second.
static inline char *page_end(void) {
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(p != MAP_FAILED && mprotect(p + 4096, 4096, PROT_NONE) == 0);
    return p + 4096;
}

// A bit of work with a result that is known to the compiler only.
static inline uint64_t work(uint64_t rounds) {
    volatile uint64_t x = 88172645463325252ull;
    while (rounds--) {
        uint64_t y = x;
        y ^= y << 13;
        y ^= y >> 7;
        y ^= y << 17;
        x = y;
    }
    return x;
}
