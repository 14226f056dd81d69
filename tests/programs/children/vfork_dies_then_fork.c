// Forks, one after the other, of a process whose children of vfork signals have killed.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void borrowed(int round)
{
    int status;
    pid_t child = vfork();
    if (child == 0) {
        if (round % 3 == 0)
            abort();
        if (round % 3 == 1)
            *(volatile int *)8 = 1;
        kill(getpid(), SIGTERM);
    }
    waitpid(child, &status, 0);
    printf("vfork: %x\n", status & ~0x80);
}

int main(void)
{
    for (int round = 0; round < 12; round++) {
        int status;
        borrowed(round);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            borrowed(round + 1);
            fflush(stdout);
            _exit(round);
        }
        waitpid(child, &status, 0);
        printf("fork: %x\n", status);
    }
}
