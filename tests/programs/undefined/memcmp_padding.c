// The same by memcmp.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct padded {
    char kind;
    int size;
    long more;
};

__attribute__((noipa)) static void fill(struct padded *to) {
    to->kind = 'x';
    to->size = 40;
    to->more = 2;
}

static int (*volatile compare)(const void *, const void *, size_t) = memcmp;

int main(void) {
    struct padded *one = malloc(sizeof *one), *other = malloc(sizeof *other);
    fill(one);
    fill(other);
    puts(compare(one, other, sizeof *one) == 0 ? "same" : "other"); /* HERE */
    free(one);
    free(other);
    return 0;
}
