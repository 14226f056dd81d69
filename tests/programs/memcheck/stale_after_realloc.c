// Writes through a pointer to where a block was before realloc moved it.
// finds: write inside 8
// flags: -fno-builtin
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    (void)argv;
    long *all = malloc(32), *behind = malloc(32);
    volatile long *kept = all + 1;
    __asm__ volatile("" : "+r"(kept));
    all[0] = all[1] = argc;
    behind[0] = 1;
    long *larger = realloc(all, 5000);
    larger[600] = 1;
    *kept = 7; /* HERE */
    printf("%ld\n", larger[1] + behind[0]);
    free(larger);
    free(behind);
    return 0;
}
