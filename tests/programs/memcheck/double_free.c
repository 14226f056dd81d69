// Gives a block back twice. libc notices, and ends the program.
// finds: double-free inside 0
// flags: -fno-builtin
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    (void)argv;
    char *one = malloc(40 * argc), *other = malloc(40 * argc);
    one[0] = other[0] = 1;
    free(one);
    free(other);
    puts("freed");
    free(one); /* HERE */
    return 0;
}
