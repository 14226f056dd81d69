// Keeps a pointer in a register that calls preserve, has a shell run a command meanwhile, by a child that has its memory and its thread, and crashes.
#include <stdlib.h>

__attribute__((noinline)) static long choose(long count) {
    return count * 16 + 7;
}

int main(int count, char **arguments) {
    int *kept = (int *)choose(count);
    int status = system("exit 3");
    return *kept + status + (arguments == NULL);
}
