// Structures with padding are compared byte by byte.
// finds: branch any

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct padded {
    char kind;
    int size;
};

__attribute__((noipa)) static void fill(struct padded *to) {
    to->kind = 'x';
    to->size = 40;
}

__attribute__((noipa)) static int same(const unsigned char *one, const unsigned char *other, int count) {
    for (int i = 0; i < count; i++)
        if (one[i] != other[i]) /* HERE */
            return 0;
    return 1;
}

int main(void) {
    struct padded *one = malloc(sizeof *one), *other = malloc(sizeof *other);
    fill(one);
    fill(other);
    puts(same((unsigned char *)one, (unsigned char *)other, sizeof *one) ? "same" : "other");
    free(one);
    free(other);
    return 0;
}
