// Memory that grows, shrinks and moves.
#include "case.h"
int main(void) {
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(p, "text");
    size_t size = 4096;
    for (int n = 0; n < 12; n++) {
        char *q = mremap(p, size, size * 2, MREMAP_MAYMOVE);
        EXPECT(q != MAP_FAILED);
        p = q, size *= 2;
        p[size - 1] = n;
        EXPECT(strcmp(p, "text") == 0 && p[size / 2 - 1] == (n ? n - 1 : 0));
    }
    char *room = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *q = mremap(p, 65536, 65536, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    EXPECT(q == room && strcmp(q, "text") == 0);
    q[10] = 'x';
    EXPECT(mremap(q, 65536, 4096, 0) == q && q[10] == 'x');
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *twin = mremap(shared, 0, 4096, MREMAP_MAYMOVE);
    EXPECT(twin != MAP_FAILED);
    for (int n = 0; n < 100; n++) {
        shared[n] = n;
        EXPECT(twin[n] == n);
        twin[n]++;
        EXPECT(shared[n] == n + 1);
    }
    puts("done");
}
