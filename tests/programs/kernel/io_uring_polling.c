// An io_uring with a thread of the kernel's is refused under recording; programs then do without.
// message: SQPOLL
#include "case.h"
#include <linux/io_uring.h>
int main(void) {
    struct io_uring_params plain = {0}, polling = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1};
    int ring = syscall(SYS_io_uring_setup, 8, &plain);
    if (ring < 0)
        skip("io_uring_setup fails here");
    close(ring);
    ring = syscall(SYS_io_uring_setup, 8, &polling);
    EXPECT(ring >= 0 || errno == EINVAL || errno == EPERM);
    if (ring < 0) {
        memset(&plain, 0, sizeof plain);
        ring = syscall(SYS_io_uring_setup, 8, &plain);
    }
    EXPECT(ring >= 0);
    puts("there is a ring");
}
