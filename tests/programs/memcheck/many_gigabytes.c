// Writes behind the last of blocks that are so large together that each has memory whose addresses end in the same 32 bits as those of others.
// finds: write behind 0
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 12 };

int main(int argc, char **argv) {
    (void)argv;
    volatile char *blocks[BLOCKS];
    const size_t size = ((size_t)1 << 30) + 13;
    long sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        if (!blocks[i])
            return 1;
        for (size_t at = 0; at < size; at += size / 8)
            blocks[i][at] = (char)(i + argc);
        blocks[i][size - 1] = (char)i;
    }
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < size; at += size / 8)
            sum += blocks[i][at];
    blocks[BLOCKS - 1][size - 1 + argc] = 1; /* HERE */
    printf("%ld\n", sum);
    for (int i = 0; i < BLOCKS; i++)
        free((void *)blocks[i]);
    return 0;
}
