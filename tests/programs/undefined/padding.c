// Structures with padding are copied, passed and given back: nobody looks at the padding.
// finds: nothing

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct padded {
    char kind;
    long size;
    short rest;
};

__attribute__((noipa)) static struct padded changed(struct padded from) {
    from.size += 2;
    return from;
}

int main(void) {
    struct padded one, *block = malloc(4 * sizeof *block);
    one.kind = 'x';
    one.size = 40;
    one.rest = 7;
    memcpy(&block[0], &one, sizeof one);
    block[1] = changed(block[0]);
    memmove(&block[2], &block[0], 2 * sizeof one);
    for (int i = 0; i < 4; i++)
        if (block[i].kind != 'x' || block[i].size < 40 || block[i].rest != 7)
            puts("wrong");
    printf("%ld\n", block[3].size);
    free(block);
    return 0;
}
