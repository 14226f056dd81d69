// SIGTERM from a child.
// info: SIGTERM
#include "case.h"
int main(void) {
    pid_t parent = getpid();
    if (fork() == 0) {
        usleep(50000);
        kill(parent, SIGTERM);
        _exit(0);
    }
    for (;;)
        work(100);
}
