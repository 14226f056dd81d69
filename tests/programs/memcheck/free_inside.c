// Gives back a pointer to the inside of a block. libc ends the program.
// finds: invalid-free inside 16
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    (void)argv;
    char *block = malloc(100 * argc);
    block[0] = argc;
    block += 16;
    puts("now");
    free(block); /* HERE */
    return 0;
}
