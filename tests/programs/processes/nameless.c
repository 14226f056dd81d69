// Executes programs that no path leads to: in memory only, in a file system that is not mounted any more, deleted.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum how { FEXECVE, EXECVEAT, PROC, IN_FOLDER };

static int copy(int to)
{
    char bytes[65536];
    ssize_t len;
    int from = open("/bin/echo", O_RDONLY);
    while ((len = read(from, bytes, sizeof bytes)) > 0)
        write(to, bytes, len);
    close(from);
    return to;
}

static int file(const char *path)
{
    close(copy(open(path, O_RDWR | O_CREAT, 0755)));
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void run(char *name, enum how how, int fd)
{
    char path[40], *arguments[] = {"echo", name, NULL};
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        switch (how) {
        case FEXECVE: fexecve(fd, arguments, environ); break;
        case EXECVEAT: syscall(SYS_execveat, fd, "", arguments, environ, AT_EMPTY_PATH); break;
        case PROC: execve(path, arguments, environ); break;
        case IN_FOLDER: syscall(SYS_execveat, fd, "echo", arguments, environ, 0); break;
        }
        perror("execve");
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("status %x\n", status);
}

int main(void)
{
    for (int flag = 0; flag < 2; flag++) {
        int memory = copy(memfd_create("program", flag ? MFD_CLOEXEC : 0));
        run("in memory", FEXECVE, memory);
        run("in memory, by its descriptor", EXECVEAT, memory);
        run("in memory, by its link", PROC, memory);
        close(memory);
    }
    int deleted = file("deleted");
    unlink("deleted");
    run("deleted", FEXECVE, deleted);
    mkdir("folder", 0755);
    // Only root, or in a user namespace.
    if (mount("none", "folder", "tmpfs", 0, NULL) == 0) {
        int mounted = file("folder/echo"), folder = open("folder", O_PATH | O_DIRECTORY | O_CLOEXEC);
        run("mounted", FEXECVE, mounted);
        umount2("folder", MNT_DETACH);
        run("not mounted", FEXECVE, mounted);
        run("in a folder that is not mounted", IN_FOLDER, folder);
    }
    return 5;
}
