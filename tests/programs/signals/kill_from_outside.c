// Another process sends signals, one when the one before has been handled.
#include "case.h"
static volatile unsigned *seen;
static void handler(int s, siginfo_t *i, void *c) { ++*seen; }
int main(void) {
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    on(SIGUSR1, handler, 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (unsigned n = 0; n < 200; n++) {
            kill(parent, SIGUSR1);
            while (*seen == n && getppid() == parent)
                usleep(10);
        }
        _exit(0);
    }
    uint64_t once = work(100);
    while (*seen < 200)
        EXPECT(work(100) == once);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    printf("%u\n", *seen);
}
