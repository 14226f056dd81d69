// A fault whose signal is blocked kills, although there is a handler.
// info: SIGSEGV
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) { _exit(1); }
int main(void) {
    on(SIGSEGV, handler, 0);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *(volatile int *)0x20 = 1;
}
