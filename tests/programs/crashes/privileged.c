// A privileged instruction.
// info: SIGSEGV
#include "case.h"
int main(void) { asm volatile("hlt"); }
