// Code in a segment of the program's own that can be written to, as packers make them: blocks that begin with a store of one byte.
// flags: -no-pie -Wl,--no-warn-rwx-segments
#include "case.h"
#include <stdint.h>
#define WRITABLE __attribute__((section(".own,\"awx\",@progbits#"), noinline, used))

WRITABLE static int fibonacci(int n) { return n < 2 ? 1 : fibonacci(n - 1) + fibonacci(n - 2); }

// Each of these blocks is `stosb`, `pushf` or `push`, with something behind it. The first one changes an instruction of the last one.
int changed(int value, void *unused, int times);
__asm__(".section .own,\"awx\",@progbits\n"
        "changed:\n"
        "  mov %edx, %ecx\n"
        "  mov %edi, %eax\n"
        "  lea operand(%rip), %rdi\n"
        "  jmp 1f\n"
        "1: stosb\n"
        "  xor %edx, %edx\n"
        "  jmp 2f\n"
        "2: pushf\n"
        "  lea 1(%rdx), %edx\n"
        "  jmp 3f\n"
        "3: push %rcx\n"
        "  mov %edx, %eax\n"
        ".byte 0x83, 0xc0\n" // add $operand, %eax
        "operand: .byte 0\n"
        "  pop %rcx\n"
        "  popf\n"
        "  dec %ecx\n"
        "  jnz 2b\n"
        "  ret\n"
        ".text\n");

int main(void) {
    printf("%d\n", fibonacci(15));
    for (int n = 0; n < 100; n += 7) {
        int got = changed(n, 0, n + 1);
        EXPECT(got == n + (n + 1));
        printf("%d ", got);
    }
    printf("\n");
    return 0;
}
