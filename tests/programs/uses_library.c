/* Reads a file and lets a library of its own work on it. */
#include <stdio.h>

unsigned long digest(const unsigned char *bytes, unsigned long length);

int main(int argc, char **argv)
{
    static unsigned char bytes[1 << 16];
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file)
        return 2;
    unsigned long length = fread(bytes, 1, sizeof bytes, file);
    printf("%lu bytes, digest %lx\n", length, digest(bytes, length));
    fprintf(stderr, "done\n");
    return 5;
}
