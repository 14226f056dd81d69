// A memory file mapped twice, sealed, and sent through a socket.
#include "case.h"
#include <sys/socket.h>
int main(void) {
    int fd = memfd_create("file", MFD_ALLOW_SEALING);
    EXPECT(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *a = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *b = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int n = 0; n < 8000; n += 40) {
        a[n] = n;
        EXPECT(b[n] == (char)n);
        b[n + 1] = a[n] + 1;
        EXPECT(a[n + 1] == (char)(n + 1));
    }
    int pair[2], got = -1;
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    char control[CMSG_SPACE(4)] = {0}, byte = 'x';
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(4);
    memcpy(CMSG_DATA(c), &fd, 4);
    EXPECT(sendmsg(pair[0], &m, 0) == 1);
    memset(control, 0, sizeof control);
    EXPECT(recvmsg(pair[1], &m, 0) == 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), 4);
    char text[4];
    EXPECT(pread(got, text, 4, 40) == 4 && text[0] == 40 && text[1] == 41);
    munmap(a, 8192), munmap(b, 8192);
    EXPECT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
    EXPECT(write(got, "x", 1) == -1 && errno == EPERM);
    puts("done");
}
