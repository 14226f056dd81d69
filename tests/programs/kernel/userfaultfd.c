// Pages that another process fills in when they are touched first.
#include "case.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
int main(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        skip("userfaultfd is not allowed here");
    struct uffdio_api api = {.api = UFFD_API};
    EXPECT(ioctl(fd, UFFDIO_API, &api) == 0);
    char *m = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uint64_t)m, 16 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    EXPECT(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
    pid_t child = fork();
    if (child == 0) {
        char page[4096];
        for (int n = 0; n < 16; n++) {
            struct uffd_msg msg;
            if (read(fd, &msg, sizeof msg) != sizeof msg || msg.event != UFFD_EVENT_PAGEFAULT)
                _exit(1);
            memset(page, 'a' + n, sizeof page);
            struct uffdio_copy c = {.dst = msg.arg.pagefault.address & ~4095ull, .src = (uint64_t)page, .len = 4096};
            if (ioctl(fd, UFFDIO_COPY, &c) != 0)
                _exit(2);
        }
        _exit(0);
    }
    unsigned sum = 0;
    for (int n = 0; n < 16; n++) {
        volatile char *at = m + n * 4096 + 100;
        EXPECT(*at == 'a' + n);
        sum += *at;
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    printf("%u\n", sum);
}
