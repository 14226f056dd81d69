// Descriptors of standard output and error that are no copies by `dup`: got from a process, and handed over with a message. What is
// written through them belongs to the output.
#include "../case.h"
#include <sys/socket.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static void say(int fd, const char *text) {
    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void hand_over(int socket, int first, int second) {
    char byte = 'x';
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(2 * sizeof(int));
    int numbers[] = {first, second};
    memcpy(CMSG_DATA(head), numbers, sizeof numbers);
    EXPECT(sendmsg(socket, &message, 0) == 1);
}

static void take(int socket, int *numbers) {
    char byte;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    EXPECT(recvmsg(socket, &message, 0) == 1);
    memcpy(numbers, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
}

int main(void) {
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    int out = self < 0 ? -1 : syscall(SYS_pidfd_getfd, self, 1, 0);
    if (out < 0)
        skip("there is no pidfd_getfd");
    int err = syscall(SYS_pidfd_getfd, self, 2, 0);
    say(out, "to output by pidfd_getfd\n");
    say(err, "to errors by pidfd_getfd\n");

    int ends[2], got[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    hand_over(ends[0], 1, 2);
    take(ends[1], got);
    say(got[0], "to output by a message\n");
    say(got[1], "to errors by a message\n");

    // And through what was no stream before, and is none any more.
    int other = open("/dev/null", O_WRONLY);
    EXPECT(dup2(got[1], other) == other);
    say(other, "to errors by a copy\n");
    EXPECT(close(got[0]) == 0);
    int null = open("/dev/null", O_WRONLY);
    EXPECT(null == got[0]);
    say(null, "nowhere\n");
    return 0;
}
