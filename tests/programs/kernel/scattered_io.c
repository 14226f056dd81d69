// readv, recvmsg, preadv: the kernel writes to several buffers at once.
#include "case.h"
#include <sys/socket.h>
#include <sys/uio.h>
int main(void) {
    int p[2], s[2];
    EXPECT(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    char a[10], b[20], c[30];
    unsigned sum = 0;
    for (int n = 0; n < 50; n++) {
        char out[60];
        for (int k = 0; k < 60; k++)
            out[k] = n + k;
        struct iovec v[] = {{a, 10}, {b, 20}, {c, 30}};
        EXPECT(write(p[1], out, 60) == 60 && readv(p[0], v, 3) == 60);
        sum += a[9] + b[0] + b[19] + c[0] + c[29];
        EXPECT(send(s[0], out, 60, 0) == 60);
        memset(a, 0, 10), memset(b, 0, 20), memset(c, 0, 30);
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
        EXPECT(recvmsg(s[1], &m, 0) == 60);
        sum += a[9] + b[0] + b[19] + c[0] + c[29];
        struct iovec w[] = {{"standard ", 9}, {"output\n", 7}};
        if (n < 3)
            EXPECT(writev(1, w, 2) == 16);
    }
    struct mmsghdr mm[2] = {{.msg_hdr = {.msg_iov = &(struct iovec){a, 5}, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &(struct iovec){b, 5}, .msg_iovlen = 1}}};
    int d[2];
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, d) == 0 && send(d[0], "12345", 5, 0) == 5 && send(d[0], "67890", 5, 0) == 5);
    EXPECT(recvmmsg(d[1], mm, 2, 0, NULL) == 2 && a[0] == '1' && b[4] == '0' && mm[1].msg_len == 5);
    printf("%u\n", sum);
}
