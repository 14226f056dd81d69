// A debugger: sets a breakpoint in a program that it starts, by each way into its memory, and changes its registers there.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) int triple(int x)
{
    asm volatile("");
    return x * 3;
}

static void poke(pid_t pid, int memory, long word)
{
    if (memory >= 0)
        pwrite(memory, &word, sizeof word, (intptr_t)triple);
    else
        ptrace(PTRACE_POKETEXT, pid, triple, word);
}

static void trace(char *self, int by_file)
{
    char path[40];
    int status, memory = -1, hits = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(self, self, "traced", NULL);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    printf("executed: %x\n", status);
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    if (by_file)
        memory = open(path, O_RDWR);
    long word = ptrace(PTRACE_PEEKTEXT, pid, triple, 0);
    poke(pid, memory, (word & ~0xffL) | 0xcc);
    ptrace(PTRACE_CONT, pid, 0, 0);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && hits++ < 5) {
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        printf("signal %d at the breakpoint: %d\n", WSTOPSIG(status), regs.rip == (uintptr_t)triple + 1);
        poke(pid, memory, word);
        regs.rip--;
        regs.rdi = 14;
        printf("set: %ld\n", ptrace(PTRACE_SETREGS, pid, 0, &regs));
        ptrace(PTRACE_CONT, pid, 0, 0);
    }
    printf("ended: %x, %d hits\n", status, hits);
    if (memory >= 0)
        close(memory);
}

int main(int count, char **arguments)
{
    if (count > 1)
        return triple(2);
    trace(arguments[0], 0);
    trace(arguments[0], 1);
    return 0;
}
