// MADV_DONTNEED, MADV_FREE, and pages that are zero again.
#include "case.h"
int main(void) {
    char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int n = 0; n < 100; n++) {
        memset(p, n + 1, 65536);
        EXPECT(p[n * 100] == n + 1);
        EXPECT(madvise(p, 65536, MADV_DONTNEED) == 0);
        EXPECT(p[n * 100] == 0 && p[65535] == 0);
    }
    memset(p, 1, 65536);
    EXPECT(madvise(p, 65536, MADV_FREE) == 0);
    char c = p[100];
    EXPECT(c == 0 || c == 1);
    int fd = memfd_create("m", 0);
    EXPECT(ftruncate(fd, 8192) == 0);
    char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(m, 5, 8192);
    EXPECT(madvise(m, 8192, MADV_REMOVE) == 0 && m[100] == 0);
    puts("done");
}
