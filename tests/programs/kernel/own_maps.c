// The list of mappings, read piece by piece: what is accessible in it is the program's, and what it reserves at a fixed address it has.
#include "case.h"
#define SIZE (1UL << 40)
static char text[1 << 20];
static size_t read_maps(size_t piece) {
    size_t len = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY);
    EXPECT(fd >= 0);
    while ((got = read(fd, text + len, piece)) > 0)
        len += got;
    EXPECT(got == 0 && close(fd) == 0);
    text[len] = 0;
    return len;
}
int main(void) {
    // A terabyte for nothing, wherever it is free: then it can be given a use.
    char *at = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(at != MAP_FAILED && munmap(at, SIZE) == 0);
    EXPECT(mmap(at, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at);
    for (unsigned long n = 0; n < SIZE; n += SIZE / 8) {
        EXPECT(mprotect(at + n, 4096, PROT_READ | PROT_WRITE) == 0);
        at[n] = 1;
    }
    EXPECT(munmap(at + SIZE / 2, SIZE / 2) == 0 && mprotect(at + SIZE / 2, 4096, PROT_READ) == -1);
    char name[300];
    for (size_t piece = 100; piece <= 100000; piece *= 10) {
        size_t len = read_maps(piece);
        int program = 0, others = 0, stack = 0;
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            unsigned long start, end;
            char access[5];
            name[0] = 0;
            EXPECT(sscanf(line, "%lx-%lx %4s %*s %*s %*s %299s", &start, &end, access, name) >= 3 && start < end);
            program += strstr(name, "/program") != NULL;
            others += strstr(name, "dynamorio") != NULL || strstr(name, "bugnet_logger") != NULL;
            stack += strcmp(name, "[stack]") == 0;
        }
        printf("%d %d %d %d\n", len > 100, program > 1, others, stack);
    }
    // What is written to it is found where it was written.
    for (unsigned long n = 0; n < SIZE / 2; n += SIZE / 8)
        EXPECT(at[n] == 1);
}
