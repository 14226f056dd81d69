// Read-modify-writes of memory that another process changes at the same time: locked ones, whose sums are known, of all
// sizes and kinds, and unlocked ones, of which some get lost.
#include "case.h"
typedef unsigned __int128 wide;
static void turn(volatile char *p, int n) {
    volatile uint64_t *m = (volatile uint64_t *)p;
    __atomic_fetch_add(&m[0], 1, __ATOMIC_SEQ_CST);
    asm volatile("lock incb %0" : "+m"(p[8])::"cc");
    asm volatile("lock addw $3, %0" : "+m"(*(uint16_t *)(p + 10))::"cc");
    asm volatile("lock xorl %1, %0" : "+m"(*(uint32_t *)(p + 12)) : "r"(1u << n % 32) : "cc");
    asm volatile("lock subq %1, %0" : "+m"(m[2]) : "r"((uint64_t)n) : "cc");
    uint64_t old = m[3];
    while (!__atomic_compare_exchange_n(&m[3], &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    uint64_t low = m[4], high = m[5];
    char done;
    do
        asm volatile("lock cmpxchg16b %0\n sete %3"
                     : "+m"(*(wide *)(p + 32)), "+a"(low), "+d"(high), "=q"(done)
                     : "b"(low + 1), "c"(high + 2)
                     : "cc");
    while (!done);
    // A lock made of an exchange, and what it protects.
    while (__atomic_exchange_n((uint32_t *)(p + 48), 1, __ATOMIC_ACQUIRE))
        ;
    m[7]++;
    __atomic_store_n((uint32_t *)(p + 48), 0, __ATOMIC_RELEASE);
    asm volatile("lock btsq %1, %0" : "+m"(m[8]) : "i"(5) : "cc");
    asm volatile("negq %0" : "+m"(m[9])::"cc");
    m[10]++;
    m[11] += n;
}
int main(void) {
    volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *together = (int *)(p + 1024);
    pid_t child = fork();
    // Both at the same time.
    __atomic_fetch_add(together, 1, __ATOMIC_SEQ_CST);
    while (*together < 2)
        ;
    for (int n = 0; n < 4000; n++)
        turn(p, n);
    if (child == 0)
        _exit(0);
    EXPECT(waitpid(child, NULL, 0) == child);
    uint64_t *m = (uint64_t *)p;
    printf("%lu %u %u %x %ld %lu %lu %lu %lu %lx\n", m[0], (unsigned char)p[8], *(uint16_t *)(p + 10),
           *(uint32_t *)(p + 12), m[2], m[3], m[4], m[5], m[7], m[8]);
}
