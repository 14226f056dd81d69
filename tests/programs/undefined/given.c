// What calloc gives out is set, and so is what the kernel writes.
// finds: nothing

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void) {
    long *numbers = calloc(100, sizeof *numbers);
    for (int i = 0; i < 100; i++)
        if (numbers[i])
            puts("wrong");
    int ends[2];
    struct stat about;
    char *one = malloc(40), *other = malloc(40);
    struct iovec parts[2] = {{one, 20}, {other, 20}};
    if (pipe(ends) != 0 || write(ends[1], "abcdefghijklmnopqrstuvwxyz", 26) != 26 || readv(ends[0], parts, 2) != 26)
        return 1;
    if (one[19] != 't' || other[5] != 'z')
        puts("wrong");
    if (fstat(ends[0], &about) != 0 || !S_ISFIFO(about.st_mode))
        puts("wrong");
    FILE *file = fopen("/proc/self/stat", "r");
    char *line = malloc(1000);
    if (!file || !fgets(line, 1000, file) || line[0] < '0')
        puts("wrong");
    fclose(file);
    free(line);
    free(one);
    free(other);
    free(numbers);
    return 0;
}
