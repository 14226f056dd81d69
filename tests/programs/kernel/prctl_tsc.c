// PR_SET_TSC: rdtsc faults when the program says so.
// message: forbids itself to read the time stamp counter
#include "case.h"
#include <sys/prctl.h>
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, 1); }
int main(void) {
    on(SIGSEGV, handler, 0);
    int refused = prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0;
    int faulted = sigsetjmp(out, 1);
    if (!faulted && !refused)
        __builtin_ia32_rdtsc();
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    EXPECT(faulted || refused);
}
