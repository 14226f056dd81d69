// Gets room for less than the structure that it fills.
// finds: write behind 0
// part: box->size[1]
#include <stdio.h>
#include <stdlib.h>

struct shape {
    long kind;
};

struct box {
    struct shape shape;
    int count, size[2];
};

int main(int argc, char **argv) {
    (void)argv;
    volatile struct box *box = malloc(sizeof(struct shape) + 8);
    box->shape.kind = argc;
    box->count = 2;
    box->size[0] = argc;
    box->size[1] = 5; /* HERE */
    printf("%ld %d\n", box->shape.kind, box->count);
    free((void *)box);
    return 0;
}
