// int3 without a handler.
// info: SIGTRAP, breakpoint at breakpoint.c:7 in main
#include "case.h"
int main(void) {
    puts("before");
    fflush(stdout);
    asm volatile("int3");
}
