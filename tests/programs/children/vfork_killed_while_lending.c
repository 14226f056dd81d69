// Children of vfork that SIGKILL kills while they wait for a child of their own to give the memory back. What their parent does next are forks,
// which wait until no memory is lent, and programs, which wait until nobody makes a process.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const program[] = {"/bin/true", NULL};

// Kills its parent, and then executes a program or ends. Others go on meanwhile on the same stack, so it uses none of it.
static inline __attribute__((always_inline)) void kill_parent(const char *path)
{
    register char *const *arguments asm("rbx") = program;
    register const char *file asm("r12") = path;
    asm volatile("mov %[getppid], %%eax\n syscall\n"
                 "mov %%eax, %%edi\n mov $9, %%esi\n mov %[kill], %%eax\n syscall\n"
                 "mov %%r12, %%rdi\n mov %%rbx, %%rsi\n xor %%edx, %%edx\n mov %[execve], %%eax\n syscall\n"
                 "xor %%edi, %%edi\n mov %[exit], %%eax\n syscall\n"
                 :
                 : [getppid] "i"(SYS_getppid), [kill] "i"(SYS_kill), [execve] "i"(SYS_execve), [exit] "i"(SYS_exit),
                   "r"(arguments), "r"(file)
                 : "rax", "rcx", "rdx", "rsi", "rdi", "r11", "memory");
    __builtin_unreachable();
}

static void fork_once(int round)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    printf("%d: a fork: %x\n", round, status);
}

int main(void)
{
    // Whose children of children are to be waited for.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int round = 0; round < 8; round++) {
        const char *path = round % 2 ? "/bin/true" : NULL;
        int status;
        pid_t child = vfork();
        if (child == 0) {
            if (syscall(SYS_vfork) == 0)
                kill_parent(path);
            _exit(7);
        }
        waitpid(child, &status, 0);
        printf("%d: %x\n", round, status);
        if (round % 4 < 2)
            fork_once(round);
        fflush(stdout);
        status = system("/bin/echo a program");
        printf("%d: %x\n", round, status);
        while (waitpid(-1, NULL, 0) > 0)
            ;
    }
    return 0;
}
