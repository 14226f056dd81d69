// The small member of a union is set, the large one read.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

union value {
    char small;
    long large;
};

int main(void) {
    volatile union value *value = malloc(sizeof *value);
    value->small = 5;
    if (value->small == 5)
        puts("five");
    if (value->large == 5) /* HERE */
        puts("large");
    free((void *)value);
    return 0;
}
