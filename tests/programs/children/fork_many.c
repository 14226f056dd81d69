/* 100 forks in a row; each child changes its copy of memory. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    volatile long sum = 0;
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            sum += i;
            _exit((sum + 1) & 0x7f);
        }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
        sum += WEXITSTATUS(status);
    }
    printf("%ld\n", sum);
    return 0;
}
