/* A child that is to begin without its parent's handlers: by clone3, or where the kernel does not know how, as before. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* struct clone_args of linux/sched.h. */
struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static void on_signal(int signal) {
    (void)signal;
    (void)!write(1, "handled\n", 8);
}

static pid_t begin(void) {
    struct arguments arguments = {.flags = UINT64_C(1) << 32, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child >= 0 || errno != EINVAL) return child;
    child = fork();
    if (child == 0) signal(SIGUSR1, SIG_DFL);
    return child;
}

int main(void) {
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        pid_t child = begin();
        if (child == 0) {
            struct sigaction one, two;
            sigaction(SIGUSR1, NULL, &one);
            sigaction(SIGUSR2, NULL, &two);
            printf("%d %d\n", one.sa_handler == SIG_DFL, two.sa_handler == SIG_IGN);
            fflush(stdout);
            raise(SIGUSR1);
            puts("not ended");
            return 1;
        }
        int status;
        if (waitpid(child, &status, 0) != child) return 2;
        printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        fflush(stdout);
        raise(SIGUSR1);
    }
    return 0;
}
