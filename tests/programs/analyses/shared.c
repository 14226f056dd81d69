// Dies of a value that another process has put into memory that both share; this one had put another one there.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int how = argc > 1 && !strcmp(argv[1], "alone") ? MAP_PRIVATE : MAP_SHARED;
    long *word = mmap(0, 4096, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
    *word = 8;
    if (fork() == 0) {
        *word = 16;
        _exit(0);
    }
    wait(0);
    *(volatile char *)*word = 1;
    return 0;
}
