// Restartable sequences are there or not; the processor's number is right in any case.
#include "case.h"
#include <sched.h>
int main(void) {
    static char area[32] __attribute__((aligned(32)));
    long r = syscall(334, area, 32, 0, 0x53053053);
    // Registered already by libc, or not available.
    EXPECT(r == 0 || errno == EINVAL || errno == EBUSY || errno == ENOSYS || errno == EPERM);
    for (int n = 0; n < 100; n++)
        EXPECT(sched_getcpu() >= 0);
    puts("done");
}
