// A status above 255 keeps its low byte.
#include "case.h"
int main(void) { syscall(SYS_exit_group, 0x1234); }
