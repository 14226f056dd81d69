// Closing all descriptors but the standard ones, also in a loop and with flags.
#include "case.h"
int main(void) {
    int a = open("/dev/null", O_RDWR), b = dup(a);
    EXPECT(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    EXPECT(fcntl(a, F_GETFD) == -1 && errno == EBADF && fcntl(b, F_GETFD) == -1);
    a = open("/dev/null", O_RDWR);
    EXPECT(a == 3);
    EXPECT(syscall(SYS_close_range, 3, ~0u, 4) == 0 && (fcntl(a, F_GETFD) & FD_CLOEXEC));
    EXPECT(syscall(SYS_close_range, 10, 5, 0) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_close_range, 3, 10, 2) == 0 || errno == EPERM);
    for (int n = 3; n < 1024; n++)
        close(n);
    closefrom(3);
    EXPECT(open("/dev/null", O_RDONLY) == 3);
    puts("done");
}
