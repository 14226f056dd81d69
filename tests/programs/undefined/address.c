// An index of a table that nothing has set.
// finds: address heap

#include <stdio.h>
#include <stdlib.h>

static volatile int table[256];

int main(void) {
    unsigned char *which = malloc(4);
    which[0] = 3;
    int sum = table[which[0]];
    sum += table[which[2]]; /* HERE */
    printf("done\n");
    free(which);
    return sum & 0;
}
