// A function of libc reads a string that was given back.
// finds: read inside 0
// flags: -fno-builtin
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    (void)argv;
    char *name = strdup("a name that is longer");
    char *stale = name;
    __asm__ volatile("" : "+r"(stale));
    free(name);
    printf("%d\n", strlen(stale) < 100 * (size_t)argc); /* HERE */
    return 0;
}
