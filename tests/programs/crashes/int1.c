/* The other breakpoint instruction. */
#include "case.h"

int main(void) {
    __asm__ volatile(".byte 0xf1");
    return 0;
}
