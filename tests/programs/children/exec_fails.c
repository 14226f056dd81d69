/* execve that fails in every way goes on as if nothing had been. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void fails(const char *path, char *const *argv, char *const *envp) {
    long result = execve(path, argv, envp);
    printf("%ld %s\n", result, strerror(errno));
}

int main(void) {
    char *const argv[] = {"x", NULL};
    fails("/no/such/program", argv, environ);
    fails("/", argv, environ);
    fails("/etc/passwd", argv, environ);
    fails("", argv, environ);
    fails((const char *)8, argv, environ);
    fails("/bin/true", (char *const *)8, environ);
    fails("/bin/true", argv, (char *const *)8);
    char long_path[5000];
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    fails(long_path, argv, environ);
    FILE *file = fopen("no_format", "w");
    fputs("neither ELF nor a script\n", file);
    fclose(file);
    chmod("no_format", 0755);
    fails("./no_format", argv, environ);
    unlink("no_format");
    return 3;
}
