// A copy, by vectors, of what is partly set: what is set may decide, the rest may not.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    int *from = malloc(256), *to = malloc(256);
    for (int i = 0; i < 64; i += 2)
        from[i] = i;
    memcpy(to, from, 256);
    volatile int *copy = to;
    for (int i = 0; i < 64; i += 2)
        if (copy[i] != i)
            puts("wrong");
    if (copy[33] == 2) /* HERE */
        puts("two");
    free(from);
    free(to);
    return 0;
}
