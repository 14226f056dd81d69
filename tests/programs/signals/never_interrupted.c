// System calls that do not wait are never interrupted, wherever a signal comes whose handler does not ask for a restart.
#include "case.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#define SIGNALS 15000
static volatile long seen;
static void handler(int s, siginfo_t *i, void *c) { seen++; }
int main(void) {
    on(SIGUSR1, handler, 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int n = 0; n < SIGNALS; n++) {
            kill(parent, SIGUSR1);
            for (volatile int delay = 0; delay < n % 300; delay++)
                ;
        }
        _exit(0);
    }
    int fd = open("/dev/null", O_RDWR), status;
    long failed[4] = {0};
    struct stat st;
    do {
        failed[0] += syscall(SYS_getppid) < 0;
        failed[1] += lseek(fd, 0, SEEK_SET) < 0;
        failed[2] += write(fd, "x", 1) < 0;
        failed[3] += stat("/dev/null", &st) < 0;
    } while (waitpid(child, &status, WNOHANG) != child);
    printf("%d: %ld %ld %ld %ld failed\n", seen > 0, failed[0], failed[1], failed[2], failed[3]);
}
