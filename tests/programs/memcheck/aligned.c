// Writes behind a block that posix_memalign has given out, which stores its address.
// finds: write behind 0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    (void)argv;
    void *blocks[3];
    for (int i = 0; i < 3; i++)
        if (posix_memalign(&blocks[i], 64, 40 + 8 * i))
            return 1;
    memset(blocks[2], argc, 56);
    volatile char *last = blocks[2];
    last[55 + argc] = 1; /* HERE */
    printf("%d\n", last[3]);
    for (int i = 0; i < 3; i++)
        free(blocks[i]);
    return 0;
}
