// A handler that reports and raises the signal again with its default action.
// info: SIGSEGV
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) {
    if (write(2, "crash\n", 6) != 6)
        _exit(1);
    signal(s, SIG_DFL);
    raise(s);
}
int main(void) {
    on(SIGSEGV, handler, SA_NODEFER);
    *(volatile int *)0x20 = 1;
}
