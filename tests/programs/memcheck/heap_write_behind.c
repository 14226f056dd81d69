// Writes one element more than there is room for: 4 bytes behind a block, in its header's place.
// finds: write behind 0
#include <stdio.h>
#include <stdlib.h>

static int *squares(int count) {
    int *all = malloc(count * sizeof *all);
    for (int i = 0; i <= count; i++)
        all[i] = i * i; /* HERE */
    return all;
}

int main(int argc, char **argv) {
    (void)argv;
    int *all = squares(argc + 9);
    printf("%d\n", all[argc + 3]);
    free(all);
    return 0;
}
