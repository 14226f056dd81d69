// Instructions with two accesses that fault at the second: push from memory, movs, cmps, call through memory.
#include "case.h"
static char *end;
static volatile int faults;
static void handler(int s, siginfo_t *i, void *c) {
    faults++;
    mprotect(end, 4096, PROT_READ | PROT_WRITE);
}
int main(void) {
    on(SIGSEGV, handler, 0);
    stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
    EXPECT(sigaltstack(&s, NULL) == 0);
    end = page_end();
    uint64_t sum = 0;
    for (int n = 0; n < 10; n++) {
        char buffer[16] = "0123456789abcdef", *from = buffer, *to = end;
        mprotect(end, 4096, PROT_NONE);
        asm volatile("movsq" : "+S"(from), "+D"(to)::"memory");
        EXPECT(to == end + 8 && from == buffer + 8 && memcmp(end, "01234567", 8) == 0);
        mprotect(end, 4096, PROT_NONE);
        from = buffer, to = end;
        asm volatile("cmpsb" : "+S"(from), "+D"(to)::"memory", "cc");
        EXPECT(to == end + 1);
        mprotect(end, 4096, PROT_NONE);
        // A read that lies in both pages.
        uint64_t x;
        asm volatile("mov %1, %0" : "=r"(x) : "m"(*(uint64_t *)(end - 4)));
        sum += x;
        mprotect(end, 4096, PROT_NONE);
        asm volatile("addq $1, %0" : "+m"(*(uint64_t *)(end - 4))::"cc");
        mprotect(end, 4096, PROT_NONE);
        asm volatile("movups %0, %%xmm1\n movups %%xmm1, %0" : "+m"(*(uint64_t *)(end - 4))::"xmm1");
    }
    printf("%d %lx\n", faults, sum);
}
