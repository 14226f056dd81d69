// Handlers that never return: siglongjmp with and without the mask.
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, s); }
int main(void) {
    on(SIGSEGV, handler, 0);
    on(SIGUSR1, handler, SA_NODEFER);
    volatile int faults = 0, raised = 0;
    for (volatile int n = 0; n < 300; n++) {
        int got = sigsetjmp(out, 1);
        if (got == 0) {
            if (n % 2)
                *(volatile int *)0 = n;
            else
                raise(SIGUSR1);
            EXPECT(!"reached");
        }
        if (got == SIGSEGV)
            faults++;
        else
            raised++;
    }
    printf("%d %d\n", faults, raised);
}
