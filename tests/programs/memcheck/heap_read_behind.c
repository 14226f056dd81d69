// Reads the byte behind a block.
// finds: read behind 0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(const char *text, int len) {
    int found = 0;
    for (int i = 0; i <= len; i++)
        found += text[i] == 'l'; /* HERE */
    return found;
}

int main(int argc, char **argv) {
    (void)argv;
    char *text = malloc(argc + 4);
    memset(text, 'l', argc + 4);
    printf("%d\n", count(text, argc + 4) > 3);
    free(text);
    return 0;
}
