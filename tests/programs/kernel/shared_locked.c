// Locked and unlocked read-modify-writes of memory that another process changes, too.
#include "case.h"
int main(void) {
    volatile uint64_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    enum { N = 20000 };
    if (child == 0) {
        for (int n = 0; n < N; n++) {
            __atomic_fetch_add(&m[0], 1, __ATOMIC_SEQ_CST);
            __atomic_fetch_xor(&m[1], 1ull << n % 64, __ATOMIC_SEQ_CST);
            uint64_t old = m[2];
            while (!__atomic_compare_exchange_n(&m[2], &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                ;
            m[8]++;
        }
        _exit(0);
    }
    for (int n = 0; n < N; n++) {
        __atomic_fetch_add(&m[0], 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_xor(&m[1], 1ull << n % 64, __ATOMIC_SEQ_CST);
        uint64_t old = m[2];
        while (!__atomic_compare_exchange_n(&m[2], &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
        m[8]++;
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    printf("%lu %lu %lu\n", m[0], m[1], m[2]);
}
