// Faults with memory in so many parts of the address space that no shadow of it fits there at one distance.
#include "case.h"
static char *heap;
static volatile int faults;
static uint64_t dirty, flags;
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    flags = flags * 31 + (u->uc_mcontext.gregs[REG_EFL] & 0x8d5);
    uint64_t page = ((char *)i->si_addr - heap) / 4096;
    EXPECT(page < 64 && !(dirty >> page & 1));
    dirty |= 1ull << page;
    mprotect(heap + page * 4096, 4096, PROT_READ | PROT_WRITE);
    faults++;
}
int main(void) {
    // In units of 4 GiB: the differences of these are all numbers that there are.
    for (uint64_t n = 1; n < 362; n++) {
        uint64_t unit = n < 181 ? n : (n - 180) * 181;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        char *page = mmap((void *)(unit << 32), 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (page != MAP_FAILED)
            *page = n;
    }
    heap = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, handler, 0);
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        dirty = 0;
        mprotect(heap, 64 * 4096, PROT_NONE);
        for (uint64_t n = 0; n < 3000; n++) {
            uint64_t *p = (uint64_t *)(heap + n * 7919 % (64 * 4096 - 8)), x, after;
            __asm__ volatile("mov %2, %%rax; add %%al, %%al; mov (%3), %0; lea 3(%%rax), %%rbx; mov %%rbx, (%3); adc (%3), %%rbx; pushfq; pop %1"
                             : "=&r"(x), "=&r"(after)
                             : "r"(n), "r"(p)
                             : "rax", "rbx", "cc", "memory");
            sum = sum * 3 + x + (after & 0x8d5);
        }
    }
    printf("%d %lu %lx\n", faults, sum, flags);
}
