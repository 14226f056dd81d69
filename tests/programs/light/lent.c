// A child that has its parent's memory, by vfork, asks to be traced: what it does then is not kept, and its parent goes on as if it had been started alone.
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        _exit(7);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    printf("%d, of %s\n", WEXITSTATUS(status), child == getpid() ? "itself" : "its child");
    return 0;
}
