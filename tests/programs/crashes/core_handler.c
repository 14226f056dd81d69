// A handler that reports, sets the default action, and returns to crash again.
// info: SIGSEGV
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) {
    char text[64];
    int n = snprintf(text, sizeof text, "fault at %p\n", i->si_addr);
    if (write(2, text, n) == n)
        signal(SIGSEGV, SIG_DFL);
}
int main(void) {
    on(SIGSEGV, handler, 0);
    *(volatile int *)0x20 = 1;
}
