// start PROGRAM [ROOT]: starts a program and says how it ended, within a folder ROOT as its root if that is given.
// Ends with status 77 where a root cannot be changed.
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        if (argc > 2) {
            if (chroot(argv[2]) && (unshare(CLONE_NEWUSER) || chroot(argv[2])))
                _exit(77);
            if (chdir("/"))
                _exit(1);
        }
        execl(argv[1], argv[1], "started", NULL);
        _exit(126);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return 77;
    printf("exited %d, status %d\n", WIFEXITED(status), WEXITSTATUS(status));
}
