// A thread fills in pages for another one, and needs for that what the other has just written: recording ends, and the
// program does not hang.
// flags: -pthread
// intervals: no
// message: userfaultfd
#include "case.h"
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
static int fd;
static struct {
    volatile long touched, served;
    char page[4096];
} all __attribute__((aligned(4096)));
static void *serve(void *unused) {
    for (int n = 0; n < 16; n++) {
        struct uffd_msg msg;
        EXPECT(read(fd, &msg, sizeof msg) == sizeof msg && msg.event == UFFD_EVENT_PAGEFAULT);
        all.served += all.touched;
        memset(all.page, 'a' + n, sizeof all.page);
        struct uffdio_copy c = {.dst = msg.arg.pagefault.address & ~4095ull, .src = (uint64_t)all.page, .len = 4096};
        EXPECT(ioctl(fd, UFFDIO_COPY, &c) == 0);
    }
    return unused;
}
int main(void) {
    fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        skip("userfaultfd is not allowed here");
    struct uffdio_api api = {.api = UFFD_API};
    EXPECT(ioctl(fd, UFFDIO_API, &api) == 0);
    char *m = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uint64_t)m, 16 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    EXPECT(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
    pthread_t server;
    EXPECT(pthread_create(&server, NULL, serve, NULL) == 0);
    long sum = 0;
    for (int n = 0; n < 16; n++) {
        all.touched = n;
        sum += ((volatile char *)m)[n * 4096 + 100];
    }
    EXPECT(pthread_join(server, NULL) == 0);
    printf("%ld %ld\n", sum, all.served);
}
