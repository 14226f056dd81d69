// An opcode that does not exist in 64-bit mode.
// info: SIGILL
#include "case.h"
int main(void) { asm volatile(".byte 0x06"); }
