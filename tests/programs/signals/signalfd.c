// Signals read from a descriptor.
#include "case.h"
#include <poll.h>
#include <sys/signalfd.h>
int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    EXPECT(fd >= 0);
    struct signalfd_siginfo i[4];
    EXPECT(read(fd, i, sizeof i) == -1 && errno == EAGAIN);
    kill(getpid(), SIGUSR1);
    union sigval v = {.sival_int = 4};
    sigqueue(getpid(), SIGRTMIN + 3, v);
    v.sival_int = 5;
    sigqueue(getpid(), SIGRTMIN + 3, v);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    EXPECT(poll(&p, 1, 1000) == 1);
    long n = read(fd, i, sizeof i);
    printf("%ld\n", n / (long)sizeof i[0]);
    EXPECT(i[0].ssi_signo == SIGUSR1 && i[1].ssi_int == 4 && i[2].ssi_int == 5);
    puts("done");
}
