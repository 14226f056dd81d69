// int3 without a handler.
// info: SIGTRAP
#include "case.h"
int main(void) {
    puts("before");
    fflush(stdout);
    asm volatile("int3");
}
