// An execve that a seccomp filter of the program's own forbids: it fails, or kills, or is handled.
// message: the program restricts its own system calls
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int trapped;

static void forbid(unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void handler(int signal, siginfo_t *info, void *context)
{
    trapped = info->si_syscall;
}

static void in_child(unsigned action, int handled)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction set = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        if (handled)
            sigaction(SIGSYS, &set, NULL);
        forbid(action);
        int result = execl("/bin/echo", "echo", "never", NULL);
        printf("execve: %d, errno %d, trapped at %d\n", result, trapped ? 0 : errno, trapped);
        fflush(stdout);
        _exit(4);
    }
    waitpid(child, &status, 0);
    printf("status %x\n", status & ~0x80);
}

int main(void)
{
    in_child(SECCOMP_RET_ERRNO | EPERM, 0);
    in_child(SECCOMP_RET_ERRNO | ENOENT, 0);
    in_child(SECCOMP_RET_KILL_PROCESS, 0);
    in_child(SECCOMP_RET_KILL_THREAD, 0);
    in_child(SECCOMP_RET_TRAP, 0);
    in_child(SECCOMP_RET_TRAP, 1);
    in_child(SECCOMP_RET_TRACE, 0);
    return 3;
}
