// The break: up, down, and over a protected page.
#include "case.h"
int main(void) {
    char *start = sbrk(0);
    EXPECT(brk(start + 65536) == 0 && sbrk(0) == start + 65536);
    memset(start, 7, 65536);
    char *page = (char *)(((uint64_t)start + 8191) & ~4095ull);
    EXPECT(mprotect(page, 4096, PROT_READ) == 0);
    EXPECT(brk(start + 131072) == 0);
    memset(start + 65536, 8, 65536);
    EXPECT(start[131071] == 8 && page[5] == 7);
    EXPECT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    EXPECT(brk(start) == 0 && brk(start + 65536) == 0);
    EXPECT(page[5] == 0);
    EXPECT(brk(start) == 0);
    // Not only to whole pages, and not below the start.
    EXPECT(brk(start + 12345) == 0 && sbrk(0) == start + 12345);
    memset(start, 3, 12345);
    EXPECT(brk(start + 5000) == 0 && sbrk(0) == start + 5000 && start[4999] == 3);
    EXPECT(syscall(SYS_brk, start - 4096) == (long)start + 5000);
    // Where something else lies, it does not grow.
    char *near = (char *)(((uint64_t)start + (5ul << 20)) & ~4095ul);
    EXPECT(mmap(near, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == near);
    EXPECT(brk(near + 4096) == -1 && sbrk(0) == start + 5000);
    EXPECT(munmap(near, 4096) == 0 && brk(near + 4096) == 0);
    near[4095] = 1;
    EXPECT(brk(start) == 0);
    puts("done");
}
