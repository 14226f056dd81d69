// raise() of every signal whose default action is a core file or death, in children; the last one here.
// info: SIGSYS
#include "case.h"
int main(void) {
    for (int s = 1; s < 32; s++) {
        if (s == SIGKILL || s == SIGSTOP || s == SIGTSTP || s == SIGTTIN || s == SIGTTOU)
            continue;
        pid_t child = fork();
        if (child == 0) {
            kill(getpid(), s);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, WUNTRACED) == child);
        if (WIFSTOPPED(status)) {
            printf("%d stops\n", s);
            kill(child, SIGKILL);
            EXPECT(waitpid(child, &status, 0) == child);
        } else
            printf("%d %d\n", s, status & 0x7f);
    }
    fflush(stdout);
    raise(SIGSYS);
}
