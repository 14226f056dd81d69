// Functions for strings look at more than the texts, which is not set, but nothing follows from it.
// finds: nothing

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    for (size_t size = 1; size < 300; size += 7) {
        char *one = malloc(400), *other = malloc(400);
        for (size_t i = 0; i < size; i++)
            one[i] = 'a' + i % 20;
        one[size] = 0;
        strcpy(other, one);
        if (strlen(other) != size || strcmp(one, other) != 0 || strncmp(one, other, 350) != 0)
            puts("wrong");
        if (strchr(one, 'z') || strrchr(one, 'a') == NULL || strstr(one, "zz") || strpbrk(one, "xyz"))
            puts("wrong");
        if (memchr(one, 0, 400) != one + size || strnlen(one, 400) != size || strspn(one, "abc") > 3)
            puts("wrong");
        strcat(other, "more");
        char *third = strdup(other);
        if (strcasecmp(third, other) != 0 || memcmp(third, other, size) != 0)
            puts("wrong");
        free(third);
        free(other);
        free(one);
    }
    char text[100];
    snprintf(text, sizeof text, "%s %d %5.2f", argv[0] ? "text" : "none", argc, 3.25);
    puts(text);
    return 0;
}
