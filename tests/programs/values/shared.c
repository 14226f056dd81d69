// A child shares memory with its parent, which writes there while the child sleeps: what the child finds there next, only its next access tells.
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *seen, *unseen;
static int own = 3;

static int work(int which) {
    return which + own;
}

int main(void) {
    seen = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unseen = seen + 1024;
    *seen = 5;
    *unseen = 6;
    pid_t child = fork();
    if (child == 0) {
        int before = *seen;
        while (*seen == before)
            usleep(1000);
        // From here on, it is not looked at again.
        usleep(100000);
        _exit(work(before));
    }
    usleep(20000);
    *seen = 9;
    *unseen = 10;
    usleep(20000);
    *seen = 11;
    waitpid(child, NULL, 0);
    return 0;
}
