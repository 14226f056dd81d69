// Writes to its own code.
// info: SIGSEGV
#include "case.h"
int main(void) { *(volatile char *)main = 1; }
