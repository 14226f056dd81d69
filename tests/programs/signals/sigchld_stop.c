// A child stops, continues, and is killed: the parent hears of each.
#include "case.h"
int main(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    int status;
    kill(child, SIGSTOP);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    kill(child, SIGCONT);
    EXPECT(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    kill(child, SIGTERM);
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    puts("done");
}
