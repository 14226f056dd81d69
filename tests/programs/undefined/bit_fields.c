// Bit fields of which each is set before it is read; those beside it are not.
// finds: nothing

#include <stdio.h>
#include <stdlib.h>

struct flags {
    unsigned kind : 3, level : 5, rest : 9;
    unsigned char mask;
};

__attribute__((noipa)) static void set(struct flags *flags, unsigned kind) {
    flags->kind = kind;
    flags->level = 9;
}

int main(int argc, char **argv) {
    struct flags *flags = malloc(sizeof *flags);
    set(flags, argc);
    if (flags->kind == 1 && flags->level > 4)
        puts("one");
    flags->level += 3;
    unsigned char *bits = malloc(8);
    for (int i = 0; i < 8; i += 2)
        bits[i / 8 + 1] = (bits[i / 8 + 1] & ~(1 << i)) | (argc << i);
    for (int i = 0; i < 8; i += 2)
        if (!(bits[1] & 1 << i))
            puts("none");
    printf("%d\n", flags->level);
    free(bits);
    free(flags);
    return 0;
}
