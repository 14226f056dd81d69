// Strict mode of seccomp, which allows read, write, exit and sigreturn only.
// message: restricts its own system calls
#include "case.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
int main(void) {
    puts("before");
    fflush(stdout);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        EXPECT(errno == EINVAL);
    if (write(1, "after\n", 6) != 6)
        syscall(SYS_exit, 1);
    syscall(SYS_exit, 0);
}
