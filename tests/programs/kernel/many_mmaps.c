// 100,000 mappings, one after the other, and 20,000 at once, of which no two neighbours are alike.
// intervals: no
#include "case.h"
int main(void) {
    uint64_t sum = 0;
    for (int n = 0; n < 80000; n++) {
        char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(p != MAP_FAILED);
        p[n % 4096] = 1;
        sum += p[n % 4096];
        EXPECT(munmap(p, 4096) == 0);
    }
    static char *all[20000];
    for (int n = 0; n < 20000; n++) {
        all[n] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(all[n] != MAP_FAILED);
        all[n][5000] = n;
        EXPECT(n % 2 || mprotect(all[n], 8192, PROT_READ) == 0);
    }
    for (int n = 0; n < 20000; n++)
        sum += all[n][5000];
    for (int n = 0; n < 20000; n += 3)
        EXPECT(munmap(all[n], 8192) == 0);
    printf("%lu\n", sum);
}
