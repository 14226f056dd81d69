// Writes before a block.
// finds: write before 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void trim(char *text) {
    char *end = text + strlen(text);
    while (end[-1] == ' ') /* READ */
        end--;
    *end = 0;
    text[-1] = 0; /* HERE */
}

int main(int argc, char **argv) {
    (void)argv;
    char *text = malloc(16 + argc);
    strcpy(text, "word   ");
    trim(text);
    printf("%s\n", text);
    free(text);
    return 0;
}
