/* posix_spawn with file actions, and one of a program that is not there. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    int pipes[2];
    if (pipe(pipes) != 0) return 1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    char *const argv[] = {"echo", "through a pipe", NULL};
    pid_t child;
    if (posix_spawn(&child, "/bin/echo", &actions, NULL, argv, environ) != 0) return 2;
    close(pipes[1]);
    char text[100];
    ssize_t len = read(pipes[0], text, sizeof text);
    int status;
    waitpid(child, &status, 0);
    printf("%d %zd %.*s", WEXITSTATUS(status), len, (int)len, text);
    int error = posix_spawn(&child, "/no/such/program", NULL, NULL, argv, environ);
    printf("%s\n", error == ENOENT ? "ENOENT" : strerror(error));
    return 0;
}
