// A handler crashes in the same way: the signal is blocked, and kills.
// info: SIGSEGV
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) {
    if (write(1, "handler\n", 8) == 8)
        *(volatile int *)4 = 1;
}
int main(void) {
    on(SIGSEGV, handler, 0);
    *(volatile int *)0 = 1;
}
