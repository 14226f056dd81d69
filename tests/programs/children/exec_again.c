/* A process that executes itself 20 times. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int left = argc > 1 ? atoi(argv[1]) : 20;
    printf("%d %s\n", left, getenv("LEFT") ? getenv("LEFT") : "-");
    fflush(stdout);
    if (left == 0) return 5;
    char next[20];
    snprintf(next, sizeof next, "%d", left - 1);
    setenv("LEFT", next, 1);
    char *const arguments[] = {argv[0], next, NULL};
    execv(left % 2 ? argv[0] : "/proc/self/exe", arguments);
    return 1;
}
