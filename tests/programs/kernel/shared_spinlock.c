// A spin lock between two processes, and what it protects.
#include "case.h"
static void lock(volatile uint32_t *l) {
    while (__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE))
        while (*l)
            __builtin_ia32_pause();
}
int main(void) {
    volatile uint32_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    for (int n = 0; n < 3000; n++) {
        lock(m);
        m[64]++;
        m[128] += m[64] & 1;
        __atomic_store_n(m, 0, __ATOMIC_RELEASE);
    }
    if (child == 0)
        _exit(0);
    EXPECT(waitpid(child, NULL, 0) == child);
    printf("%u %u\n", m[64], m[128]);
}
