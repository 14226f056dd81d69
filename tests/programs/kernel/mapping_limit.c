// A program that makes as many mappings as the system allows goes on with what it has.
// intervals: no
#include "case.h"
#define MOST 70000

int main(void) {
    long made = 0;
    // Pages of two kinds in turn.
    char *pages = mmap(NULL, MOST * 4096L, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(pages != MAP_FAILED);
    while (2 * made < MOST && mprotect(pages + 8192 * made, 4096, PROT_READ | PROT_WRITE) == 0)
        pages[8192 * made++] = 1;
    if (2 * made == MOST) {
        puts("the system allows more mappings here");
        return 77;
    }
    EXPECT(errno == ENOMEM && made > 20000);
    // With some of them given back, there is room.
    EXPECT(munmap(pages + 8192, 8192 * 4000) == 0);
    char *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(more != MAP_FAILED);
    more[5000] = 3;
    printf("%d %d %d\n", pages[0], pages[8192 * (made - 1)], more[5000]);
    return 4;
}
