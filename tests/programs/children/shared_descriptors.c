/* Processes with memory of their own and a common table of descriptors, with and without the folder; both go on for long, and what one
 * of them opens, the other reads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long work(unsigned long n) {
    static unsigned long table[1 << 14];
    for (unsigned long i = 0; i < n; i++) table[i * 2654435761u % (1 << 14)] += i;
    unsigned long sum = 0;
    for (int i = 0; i < 1 << 14; i++) sum += table[i];
    return sum;
}

static void round_of(unsigned long flags, const char *name) {
    int before[2];
    if (pipe(before) != 0) exit(1);
    fflush(stdout);
    long child = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        int opened = open("/proc/version", O_RDONLY);
        if (opened < 0 || write(before[1], &opened, sizeof opened) != sizeof opened) _exit(1);
        unsigned long sum = work(300000);
        char line[100];
        int len = snprintf(line, sizeof line, "%s, child: %lu\n", name, sum);
        if (write(1, line, len) != len) _exit(2);
        /* A grandchild with a table of its own. */
        if (fork() == 0) {
            close(opened);
            _exit((int)(work(1000) % 2));
        }
        int status;
        wait(&status);
        _exit(WEXITSTATUS(status) + 5);
    }
    unsigned long sum = work(500000);
    int opened, status;
    char byte;
    if (read(before[0], &opened, sizeof opened) != sizeof opened) exit(2);
    if (waitpid(child, &status, 0) != child) exit(3);
    ssize_t got = read(opened, &byte, 1);
    printf("%s, parent: %lu, status %d, what the child opened is %s\n", name, sum + work(500000), WEXITSTATUS(status) / 5,
           got == 1 && byte == 'L' ? "open" : "not open");
    close(opened);
    close(before[0]);
    close(before[1]);
}

int main(void) {
    round_of(CLONE_FILES, "files");
    round_of(CLONE_FILES | CLONE_FS, "files and folder");
    round_of(CLONE_FS, "folder");
    round_of(0, "nothing");
    return 0;
}
