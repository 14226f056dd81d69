// Signals that are ignored, or ignored by default, and stops do not interrupt system calls.
#include "case.h"
int main(void) {
    signal(SIGUSR1, SIG_IGN);
    int pipes[2];
    EXPECT(pipe(pipes) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        int order[] = {SIGUSR1, SIGURG, SIGWINCH, SIGCHLD, SIGCONT};
        for (int n = 0; n < 5; n++) {
            usleep(10000);
            kill(parent, order[n]);
        }
        usleep(10000);
        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        _exit(0);
    }
    char c;
    EXPECT(read(pipes[0], &c, 1) == 1 && c == 'x');
    EXPECT(waitpid(child, NULL, 0) == child);
    puts("done");
}
