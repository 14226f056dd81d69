// A format that does not match: a count of bytes is printed as an int.
// fails: output
// slice: thin
// repair: snprintf(line, size, "%-8s %ld", file->name, file->bytes);
#include <stdio.h>
#include <stdlib.h>

struct file {
    const char *name;
    long blocks;
    long bytes;
};

static void measure(struct file *files, int count) {
    for (int i = 0; i < count; i++)
        files[i].bytes = files[i].blocks * 4096;
}

static long most(const struct file *files, int count) {
    long most = 0;
    for (int i = 0; i < count; i++)
        if (files[i].blocks > most)
            most = files[i].blocks; /* NOT */
    return most;
}

static void row(char *line, size_t size, const struct file *file) {
    snprintf(line, size, "%-8s %d", file->name, file->bytes); /* BUG */
}

int main(void) {
    struct file files[] = {{"small", 3, 0}, {"medium", 70000, 0}, {"large", 1100000, 0}};
    char line[64];
    measure(files, 3);
    printf("most blocks %ld\n", most(files, 3));
    for (int i = 0; i < 3; i++) {
        row(line, sizeof line, &files[i]);
        puts(line);
    }
    return 0;
}
