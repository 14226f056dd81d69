// Pages that change between no access, read-only and writable.
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, 1); }
int main(void) {
    on(SIGSEGV, handler, 0);
    volatile int *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int faults = 0;
    for (volatile int n = 0; n < 200; n++) {
        p[3] = n;
        EXPECT(mprotect((void *)p, 4096, n % 2 ? PROT_READ : PROT_NONE) == 0);
        if (sigsetjmp(out, 1) == 0) {
            int x = p[3];
            EXPECT(n % 2 && x == n);
            p[3] = 5;
            EXPECT(!"reached");
        } else
            faults++;
        EXPECT(mprotect((void *)p, 4096, PROT_READ | PROT_WRITE) == 0);
        EXPECT(p[3] == n);
    }
    printf("%d\n", faults);
}
