// A process that shares this one's memory and is neither a thread nor a child of vfork.
// message: shares its memory
#include "case.h"
#include <sched.h>
static volatile int shared;
static int child(void *argument) {
    shared = *(int *)argument;
    return 3;
}
int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    int value = 42, status;
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, &value);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3 && shared == 42);
    puts("done");
}
