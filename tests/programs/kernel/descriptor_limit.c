// The limit of descriptors: shown as it is natively, lowered, met, raised again, handed on to children and programs.
#include "case.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
static void show(const char *what) {
    struct rlimit a, b;
    EXPECT(getrlimit(RLIMIT_NOFILE, &a) == 0 && prlimit(0, RLIMIT_NOFILE, NULL, &b) == 0);
    EXPECT(a.rlim_cur == b.rlim_cur && a.rlim_max == b.rlim_max);
    printf("%s: %lu %lu\n", what, a.rlim_cur, a.rlim_max);
    fflush(stdout);
}
static int set(rlim_t soft, rlim_t hard) { return setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}) == 0 ? 0 : errno; }
int main(int argc, char **argv) {
    if (argc > 1) {
        show(argv[1]);
        printf("%s: %ld %d\n", argv[1], sysconf(_SC_OPEN_MAX), dup2(0, 30) == -1 && errno == EBADF);
        return 0;
    }
    show("start");
    struct rlimit start;
    getrlimit(RLIMIT_NOFILE, &start);
    EXPECT(set(64, start.rlim_max) == 0);
    show("lowered");
    int fd, last = -1;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd;
    EXPECT(errno == EMFILE && last == 63);
    EXPECT(dup(0) == -1 && errno == EMFILE && socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EMFILE);
    EXPECT(eventfd(0, 0) == -1 && errno == EMFILE && open("/dev/null", O_RDONLY | O_CREAT, 0600) == -1 && errno == EMFILE);
    EXPECT(dup2(0, 64) == -1 && errno == EBADF && dup2(0, 63) == 63 && dup2(63, 63) == 63);
    EXPECT(fcntl(0, F_DUPFD, 64) == -1 && errno == EINVAL && fcntl(0, F_DUPFD, 10) == -1 && errno == EMFILE);
    close(20);
    int two[2];
    EXPECT(pipe(two) == -1 && errno == EMFILE && socketpair(AF_UNIX, SOCK_STREAM, 0, two) == -1 && errno == EMFILE);
    EXPECT(fcntl(0, F_DUPFD, 21) == -1 && errno == EMFILE && fcntl(0, F_DUPFD, 10) == 20);
    close(20);
    close(63);
    EXPECT(pipe(two) == 0 && two[0] + two[1] == 83);
    close(20);
    EXPECT(open("/dev/null", O_RDONLY) == 20);
    struct pollfd polled[65] = {0};
    EXPECT(poll(polled, 64, 0) >= 0 && poll(polled, 65, 0) == -1 && errno == EINVAL);
    EXPECT(set(100, 100) == 0 && dup(0) == 64 && dup2(0, 99) == 99 && dup2(0, 100) == -1);
    EXPECT(set(101, 100) == EINVAL);
    EXPECT(syscall(SYS_setrlimit, RLIMIT_NOFILE, 8) == -1 && errno == EFAULT);
    EXPECT(syscall(SYS_getrlimit, RLIMIT_NOFILE, 8) == -1 && errno == EFAULT);
    show("lower hard limit");
    printf("raised: %d\n", set(90, 110));
    // Below what is in use.
    EXPECT(set(10, 100) == 0 && dup(0) == -1 && errno == EMFILE && close(64) == 0 && dup(0) == -1);
    for (int i = 3; i < 100; i++)
        close(i);
    EXPECT(set(25, 80) == 0);
    if (fork() == 0) {
        execl("/proc/self/exe", "again", "forked", NULL);
        _exit(1);
    }
    wait(NULL);
    pid_t child = vfork();
    if (child == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){20, 70});
        execl("/proc/self/exe", "again", "vforked", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    if (fork() == 0)
        _exit(execl("/no/such/file", "none", NULL) == -1 && dup2(0, 25) == -1 ? 7 : 1);
    int status;
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    execl("/proc/self/exe", "again", "executed", NULL);
}
