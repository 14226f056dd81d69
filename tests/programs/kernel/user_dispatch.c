// Signals in place of system calls: refused, as where the kernel does not know them; the program goes on without.
// message: syscall user dispatch
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
static volatile char blocks;
static void handler(int signal) { blocks = 0; }
int main(void) {
    signal(SIGSYS, handler);
    int refused = prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &blocks);
    if (refused && errno != EINVAL)
        return 1;
    // What is off cannot be refused.
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) && !refused)
        return 2;
    if (!refused && prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &blocks))
        return 3;
    blocks = !refused;
    syscall(SYS_getuid);
    puts(blocks ? "a call was made that was blocked" : "fine");
    return 0;
}
