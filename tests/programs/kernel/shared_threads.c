// Two processes with two threads each, which count in memory that all of them share, mapped before and after the threads
// began.
// flags: -pthread
#include "case.h"
#include <pthread.h>
enum { ROUNDS = 2000 };
static volatile uint64_t *early, *late[2];
static void *count(void *number) {
    volatile uint64_t *own = late[(uint64_t)number];
    for (int n = 0; n < ROUNDS; n++) {
        __atomic_fetch_add(&early[0], 1, __ATOMIC_SEQ_CST);
        asm volatile("lock addw $3, %0" : "+m"(*(uint16_t *)&own[1])::"cc");
        while (__atomic_exchange_n(&early[2], 1, __ATOMIC_ACQUIRE))
            ;
        early[3] += 2;
        early[4] ^= early[3];
        __atomic_store_n(&early[2], 0, __ATOMIC_RELEASE);
        own[5]--;
    }
    return NULL;
}
static volatile uint64_t *map(int fd, int at) {
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at * 4096);
    EXPECT(memory != MAP_FAILED);
    return memory;
}
int main(void) {
    int fd = memfd_create("shared", 0);
    EXPECT(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
    early = map(fd, 0);
    pid_t child = fork();
    __atomic_fetch_add(&early[9], 1, __ATOMIC_SEQ_CST);
    while (early[9] < 2)
        ;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        late[i] = map(fd, i + 1);
        EXPECT(pthread_create(&threads[i], NULL, count, (void *)(uint64_t)i) == 0);
    }
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    if (child == 0)
        _exit(0);
    EXPECT(waitpid(child, NULL, 0) == child);
    printf("%lu %lu %lu %lu\n", early[0], early[3], late[0][1], late[1][1]);
}
