// Writes through a null pointer.
// info: SIGSEGV
// info: would write 4 bytes at 0x10
#include "case.h"
int main(void) {
    printf("before\n");
    fflush(stdout);
    *(volatile int *)16 = 1;
}
