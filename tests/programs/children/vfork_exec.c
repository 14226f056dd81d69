/* vfork, changes to the parent's memory, exec; then one that fails and says so through shared memory. */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    volatile int failed = 0;
    char *const argv[] = {"echo", "from the child", NULL};
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execv(i % 2 ? "/bin/echo" : "/no/such/program", argv);
            failed = errno;
            _exit(77);
        }
        int status;
        waitpid(child, &status, 0);
        if (i < 2) printf("%d %d\n", failed, WEXITSTATUS(status));
        fflush(stdout);
        failed = 0;
    }
    return 0;
}
