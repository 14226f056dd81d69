// A general protection fault: an address that is none.
// info: SIGSEGV
#include "case.h"
int main(void) {
    volatile char *volatile p = (char *)0xdead000000000000;
    return *p;
}
