// A fault whose signal is ignored kills all the same.
// info: SIGSEGV
#include "case.h"
int main(void) {
    signal(SIGSEGV, SIG_IGN);
    *(volatile int *)0x20 = 1;
}
