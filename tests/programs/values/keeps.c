// Keeps a pointer on its stack while a child, by vfork, has its memory and its thread, and crashes.
#include <sys/wait.h>
#include <unistd.h>

static long choose(long count) {
    return count * 16 + 7;
}

int main(int count, char **arguments) {
    int *kept = (int *)choose(count), status = 0;
    pid_t child = vfork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    return *kept + status + (arguments == NULL);
}
