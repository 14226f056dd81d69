// Memory that the kernel fills after the program has used it for something else.
#include "case.h"
int main(void) {
    int p[2];
    EXPECT(pipe(p) == 0);
    unsigned sum = 0;
    for (int n = 0; n < 300; n++) {
        size_t size = 64 + n * 8;
        char *a = malloc(size);
        memset(a, n, size);
        free(a);
        char *b = malloc(size), out[3000];
        memset(out, 'A' + n % 26, size);
        EXPECT(write(p[1], out, size) == (long)size && read(p[0], b, size) == (long)size);
        for (size_t i = 0; i < size; i += 7)
            sum += b[i];
        free(b);
    }
    void *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 1, 1 << 20);
    munmap(m, 1 << 20);
    char *again = mmap(m, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int n = 0; n < 1 << 20; n += 512)
        EXPECT(again[n] == 0);
    int fd = open("/proc/self/exe", O_RDONLY);
    EXPECT(read(fd, again + 5, 1000) == 1000 && again[6] == 'E');
    printf("%u\n", sum);
}
