/* execveat by descriptor, in a child and in the process itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    int fd = open("/bin/echo", O_RDONLY | O_CLOEXEC);
    char *const argv[] = {"echo", "by descriptor", NULL};
    pid_t child = fork();
    if (child == 0) {
        fexecve(fd, argv, environ);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    fflush(stdout);
    fexecve(fd, argv, environ);
    return 1;
}
