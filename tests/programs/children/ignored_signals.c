/* Signals that are ignored when a program begins: by its own doing before `execve`, by fork, vfork and posix_spawn. What is ignored
 * neither ends a program nor interrupts its system calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGUSR1, SIGALRM, SIGXCPU, SIGCHLD, SIGTSTP, SIGWINCH, 40};
#define COUNT (int)(sizeof ignored / sizeof *ignored)

static void show(const char *when) {
    for (int n = 0; n < COUNT; n++) {
        struct sigaction now;
        sigaction(ignored[n], NULL, &now);
        printf("%s: %d is %s\n", when, ignored[n],
               now.sa_handler == SIG_IGN ? "ignored" : now.sa_handler == SIG_DFL ? "default" : "handled");
    }
    fflush(stdout);
}

/* The program that was executed. */
static int check(const char *when) {
    int pipes[2];
    char byte;
    show(when);
    for (int n = 0; n < COUNT; n++) raise(ignored[n]);
    if (pipe(pipes) != 0) return 1;
    /* A read that waits while all of them come. */
    signal(SIGCHLD, SIG_DFL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(50000);
        for (int n = 0; n < COUNT; n++) kill(parent, ignored[n]);
        usleep(50000);
        if (write(pipes[1], "x", 1) != 1) _exit(1);
        _exit(0);
    }
    ssize_t got = read(pipes[0], &byte, 1);
    printf("%s: read %zd %s\n", when, got, got < 0 ? strerror(errno) : "");
    waitpid(child, NULL, 0);
    /* A pipe that nobody reads. */
    close(pipes[0]);
    ssize_t put = write(pipes[1], "x", 1);
    printf("%s: write %zd %s\n", when, put, put < 0 ? strerror(errno) : "");
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    fflush(stdout);
    raise(SIGTERM);
    return 2;
}

static void report(const char *when, pid_t child) {
    int status = 0;
    pid_t got = waitpid(child, &status, 0);
    /* Where SIGCHLD is ignored, nothing is left to wait for. */
    printf("%s: waited %s, signal %d\n", when, got == child ? "for it" : strerror(errno), WTERMSIG(status));
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc > 1) return check(argv[1]);
    for (int n = 0; n < COUNT; n++) signal(ignored[n], SIG_IGN);
    char self[4096] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    pid_t child = fork();
    if (child == 0) execl(self, self, "forked", NULL);
    report("forked", child);
    child = vfork();
    if (child == 0) {
        execl(self, self, "vforked", NULL);
        _exit(1);
    }
    report("vforked", child);
    char *args[] = {self, "spawned", NULL};
    if (posix_spawn(&child, self, NULL, NULL, args, environ) != 0) return 1;
    report("spawned", child);
    /* A child of vfork that ignores for itself. */
    for (int n = 0; n < COUNT; n++) signal(ignored[n], SIG_DFL);
    child = vfork();
    if (child == 0) {
        for (int n = 0; n < COUNT; n++) signal(ignored[n], SIG_IGN);
        execl(self, self, "by itself", NULL);
        _exit(1);
    }
    report("by itself", child);
    show("parent");
    return 0;
}
