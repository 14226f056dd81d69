// A system call writes into a block that was given back.
// finds: write inside 0
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argv;
    int ends[2];
    if (pipe(ends) || write(ends[1], "hello", 5) != 5)
        return 1;
    char *buffer = malloc(100 * argc);
    buffer[0] = 0;
    __asm__ volatile("" : "+r"(buffer) : : "memory");
    char *stale = buffer;
    __asm__ volatile("" : "+r"(stale));
    free(buffer);
    ssize_t got = read(ends[0], stale, 5); /* HERE */
    printf("%zd\n", got);
    return 0;
}
