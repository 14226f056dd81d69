/* A child that crashes, one that is killed, one that aborts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i == 0) *(volatile int *)8 = 1;
            if (i == 1) abort();
            for (;;) pause();
        }
        if (i == 2) kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        printf("%d\n", WTERMSIG(status));
    }
    return 0;
}
