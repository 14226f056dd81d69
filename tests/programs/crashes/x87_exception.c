/* A division by zero by x87, which is not masked. */
#include "case.h"

int main(void) {
    unsigned short control = 0x0372 & ~4;
    double zero = 0;
    __asm__ volatile("fldcw %0; fld1; fdivl %1; fwait" : : "m"(control), "m"(zero));
    return 0;
}
