// Signals arrive while system calls that do not wait are made.
#include "case.h"
static volatile unsigned ticks;
static void tick(int s, siginfo_t *i, void *c) {
    ticks++;
    EXPECT(getppid() > 0);
}
int main(void) {
    on(SIGALRM, tick, SA_RESTART);
    struct itimerval t = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &t, NULL);
    int fd = open("/dev/zero", O_RDONLY);
    char buffer[4096];
    while (ticks < 300) {
        EXPECT(read(fd, buffer, sizeof buffer) == sizeof buffer);
        EXPECT(getpid() > 0);
        EXPECT(lseek(-1, 0, SEEK_SET) == -1 && errno == EBADF);
    }
    puts("done");
}
