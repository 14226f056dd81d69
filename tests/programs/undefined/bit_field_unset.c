// One bit field is set, another one of the same byte is read.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

struct flags {
    unsigned kind : 3, level : 5;
};

__attribute__((noipa)) static void set(struct flags *flags, unsigned kind) { flags->kind = kind; }

int main(int argc, char **argv) {
    struct flags *flags = malloc(sizeof *flags);
    set(flags, argc);
    if (flags->kind == 1)
        puts("one");
    if (flags->level == 4) /* HERE */
        puts("four");
    free(flags);
    return 0;
}
