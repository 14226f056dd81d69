// Moves text by memcpy within one buffer.
// finds: overlap inside 2
// valgrind: no
// flags: -fno-builtin
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    (void)argv;
    char *text = malloc(100);
    strcpy(text, "0123456789012345678901234567890123456789");
    memcpy(text + 2, text, strlen(text) - argc); /* HERE */
    printf("%zu\n", strlen(text));
    free(text);
    return 0;
}
