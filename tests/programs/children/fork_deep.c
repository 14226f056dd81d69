/* Each process forks the next, ten deep; exit statuses come back up. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int descend(int depth) {
    if (depth == 10) return depth;
    pid_t child = fork();
    if (child == 0) _exit(descend(depth + 1));
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) + 1;
}

int main(void) {
    printf("%d\n", descend(0));
    return 0;
}
