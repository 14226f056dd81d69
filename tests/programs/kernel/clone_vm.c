// A process that shares this one's memory and is neither a thread nor a child of vfork: it runs beside this one, and what it does to memory is found.
#include "case.h"
#include <sched.h>
enum { ROUNDS = 20000 };
static volatile int shared;
static uint64_t counter, flags, last;
static int child(void *argument) {
    shared = *(int *)argument;
    for (int i = 1; i <= ROUNDS; i++) {
        __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_xor(&flags, 1, __ATOMIC_SEQ_CST);
        last = i;
    }
    return 3;
}
int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    int value = 42, status;
    uint64_t before = 0, wrong = 0;
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, &value);
    EXPECT(pid > 0);
    while (shared != 42)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_xor(&flags, 2, __ATOMIC_SEQ_CST);
        uint64_t now = *(volatile uint64_t *)&last;
        wrong += now < before;
        before = now;
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3 && shared == 42);
    printf("%lu %lu %lu %lu\n", counter, flags, last, wrong);
}
