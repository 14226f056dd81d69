// An illegal instruction.
// info: SIGILL
// info: ud2
#include "case.h"
int main(void) { asm volatile("mov $1, %%eax\n add $1, %%eax\n ud2" ::: "rax"); }
