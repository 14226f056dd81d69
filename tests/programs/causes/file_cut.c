// A file was made shorter that is mapped: by which call, and where.
// run: truncate
// run: ftruncate
// run: open
// symptom: crash
// says: is behind the end of
// says: in rotate at
// among: 2
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static long count(const unsigned char *bytes, size_t size) {
    long all = 0;
    for (size_t i = 0; i < size; i++)
        all += bytes[i] == 'x';
    return all;
}
static void rotate(const char *file, const char *how) {
    int other = open(file, O_RDWR);
    // clang-format off
    if (!strcmp(how, "truncate")) truncate(file, 100); else if (!strcmp(how, "ftruncate")) ftruncate(other, 100); else open(file, O_RDWR | O_TRUNC); /* BUG */
    // clang-format on
    close(other);
}
int main(int argc, char **argv) {
    const char *file = "rotated.data";
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ftruncate(fd, 3 * 4096);
    unsigned char *bytes = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
    printf("%ld\n", count(bytes, 3 * 4096));
    rotate(file, argv[1]);
    printf("%ld\n", count(bytes, 3 * 4096));
}
