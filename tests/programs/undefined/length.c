// The length of a text that nobody has written.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t (*volatile length)(const char *) = strlen;

int main(void) {
    char *text = malloc(64);
    size_t size = length(text); /* HERE */
    puts("done");
    free(text);
    return (int)(size & 0);
}
