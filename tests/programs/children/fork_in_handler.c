/* A signal handler that forks. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int status;

static void handler(int number) {
    (void)number;
    pid_t child = fork();
    if (child == 0) _exit(40);
    int result;
    waitpid(child, &result, 0);
    status += WEXITSTATUS(result);
}

int main(void) {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    printf("%d\n", status);
    return 0;
}
