// SA_RESETHAND: the second fault kills.
// info: SIGSEGV
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) {
    if (write(1, "once\n", 5) != 5)
        _exit(1);
}
int main(void) {
    on(SIGSEGV, handler, SA_RESETHAND);
    *(volatile int *)0x20 = 1;
}
