// The log ends while code has run often that others, a process in the same memory and threads, then run at the same time.
// message: 32-bit system call 158
// flags: -pthread
#include "case.h"
#include <pthread.h>
#include <sched.h>
enum { ROUNDS = 100000 };
static uint64_t table[64];
// Keeps flags over loads, and registers in between.
static __attribute__((noinline)) uint64_t mixed(uint64_t seed) {
    uint64_t sum = seed;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a = table[sum % 64], b;
        asm volatile("add %2, %0\n mov %3, %1\n adc %1, %0\n rcl $3, %0" : "+r"(sum), "=&r"(b) : "r"(a), "m"(table[i % 64]) : "cc");
    }
    return sum;
}
static uint64_t expected[4];
static volatile uint64_t found[4];
static int child(void *argument) {
    found[0] = mixed(0);
    return 3;
}
static void *thread(void *argument) {
    int n = *(int *)argument;
    found[n] = mixed(n);
    return NULL;
}
int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    for (int i = 0; i < 64; i++)
        table[i] = work(i + 1);
    for (int i = 0; i < 4; i++)
        expected[i] = mixed(i);
    int value = 42, status, numbers[] = {1, 2, 3}, result;
    // sched_yield
    asm volatile("int $0x80" : "=a"(result) : "a"(158) : "memory", "r8", "r9", "r10", "r11");
    EXPECT(result == 0);
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, &value);
    EXPECT(pid > 0 && mixed(1) == expected[1] && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3 && found[0] == expected[0]);
    EXPECT(mixed(2) == expected[2]);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, thread, &numbers[i]) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0 && found[i + 1] == expected[i + 1]);
    puts("done");
}
