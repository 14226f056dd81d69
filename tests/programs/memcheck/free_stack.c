// Gives back an address of the stack. libc ends the program.
// finds: invalid-free none 0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep(char **kept, char *local) { *kept = local; }

int main(int argc, char **argv) {
    (void)argv;
    char local[64], *kept = 0;
    memset(local, argc, sizeof local);
    keep(&kept, local);
    printf("%d\n", kept[0]);
    fflush(stdout);
    __asm__ volatile("" : "+r"(kept));
    free(kept); /* HERE */
    return 0;
}
