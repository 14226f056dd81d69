// So many forks in a row.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int forks = argc > 1 ? atoi(argv[1]) : 0, sum = 0;
    for (int n = 0; n < forks; n++) {
        pid_t child = fork();
        if (child == 0)
            _exit(n % 100);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
            return 1;
        sum += WEXITSTATUS(status);
    }
    printf("%d\n", sum);
}
