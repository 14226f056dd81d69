/* A daemon: two forks and a session of its own; it says through a pipe when it is there. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int pipes[2];
    if (pipe(pipes) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        for (int fd = 0; fd < 3; fd++) close(fd);
        char byte = 'd';
        (void)!write(pipes[1], &byte, 1);
        _exit(0);
    }
    close(pipes[1]);
    waitpid(child, NULL, 0);
    char byte = 0;
    ssize_t got = read(pipes[0], &byte, 1);
    printf("%zd %c\n", got, byte);
    /* Until the daemon is gone. */
    return read(pipes[0], &byte, 1) == 0 ? 0 : 1;
}
