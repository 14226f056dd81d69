// The last x87 instruction and operand as fnstenv and fxsave show them.
#include "case.h"
extern char instruction[];
static double operand = 3;
int main(void) {
    static uint32_t e[7];
    static uint64_t a[64] __attribute__((aligned(64)));
    asm volatile("fninit\n .globl instruction\ninstruction: fldl %2\n fxsave64 %1\n fnstenv %0\n fninit" : "=m"(e), "=m"(a) : "m"(operand));
    // AMD processors store them only with an exception pending, and else what happens to be there.
    if (!__builtin_cpu_is("intel"))
        skip("this processor does not store x87 pointers without an exception");
    printf("%d %d\n", a[1] == (uint64_t)instruction, a[2] == (uint64_t)&operand);
}
