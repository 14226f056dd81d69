// A write barrier by faults, as garbage collectors make them: every write to 64 pages faults once.
#include "case.h"
static char *heap;
static volatile int faults;
static uint64_t dirty;
static void handler(int s, siginfo_t *i, void *c) {
    uint64_t page = ((char *)i->si_addr - heap) / 4096;
    EXPECT(page < 64 && !(dirty >> page & 1));
    dirty |= 1ull << page;
    mprotect(heap + page * 4096, 4096, PROT_READ | PROT_WRITE);
    faults++;
}
int main(void) {
    heap = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, handler, 0);
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        dirty = 0;
        mprotect(heap, 64 * 4096, PROT_READ);
        for (unsigned n = 0; n < 3000; n++) {
            uint64_t *p = (uint64_t *)(heap + n * 7919 % (64 * 4096 - 8));
            *p += n;
            sum += *p;
        }
    }
    printf("%d %lu\n", faults, sum);
}
