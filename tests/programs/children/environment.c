/* Executed programs see the environment that they are given, and descriptors as they should be. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        for (char **variable = environ; *variable; variable++) puts(*variable);
        printf("%s %s\n", argv[0], argv[1]);
        for (int fd = 0; fd < 64; fd++)
            if (fcntl(fd, F_GETFD) != -1) printf("%d ", fd);
        puts("");
        return 0;
    }
    char *const variables[] = {"A=1", "odd", "A=2", NULL};
    char *const arguments[] = {"another name", "argument", NULL};
    open("/dev/null", O_RDONLY | O_CLOEXEC);
    execve("/proc/self/exe", arguments, variables);
    return 1;
}
