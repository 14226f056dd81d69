// Jumps to an address that is not mapped.
// info: SIGSEGV
// info: 0x1234
#include "case.h"
static void (*volatile function)(void) = (void (*)(void))0x1234;
int main(void) { function(); }
