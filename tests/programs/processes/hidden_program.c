// A program is executed by its descriptor, while another file is where it was.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count > 1) {
        printf("executed with %s\n", arguments[1]);
        return 3;
    }
    // A user that is not root needs a user namespace for it.
    if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return 77;
    int program = open("hidden/program", O_PATH);
    if (program < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", "hidden", "tmpfs", 0, NULL))
        return 1;
    int other = open("hidden/program", O_CREAT | O_WRONLY, 0755);
    static const char begins[100] = "\177ELF\2\1\1 and nothing else";
    if (other < 0 || write(other, begins, sizeof begins) != sizeof begins || close(other))
        return 2;
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {"program", "success", NULL}, *none[] = {NULL};
        syscall(SYS_execveat, program, "", words, none, AT_EMPTY_PATH);
        _exit(4);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%x\n", status);
    return 0;
}
