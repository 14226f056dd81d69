// finds: read behind 0
// Operands of many kinds lie just behind a block.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPERANDS(end)                                                                     \
    __asm__ volatile("movb (%%rcx), %%al\n\t"                                             \
                     "movq %%rcx, %%r11\n\t"                                              \
                     "movb 1(%%r11), %%al\n\t"                                            \
                     "movb -1(%%r11,%%rdx,2), %%al\n\t"                                   \
                     "leaq 3(%%rdx), %%r10\n\t"                                           \
                     "movw (%%rcx,%%r10,1), %%ax\n\t"                                     \
                     "movq %%rcx, %%rax\n\t"                                              \
                     "movl (%%rax), %%eax\n\t"                                            \
                     "movups -8(%%rcx), %%xmm0\n\t"                                       \
                     "movups %%xmm0, -12(%%r11)\n\t"                                      \
                     "lock incb 2(%%rcx)\n\t"                                             \
                     "cmpb $0, 4(%%r11)\n\t"                                              \
                     "sete 5(%%rcx)\n\t"                                                  \
                     "pushq -4(%%rcx)\n\t"                                                \
                      "popq -3(%%r11)\n\t"                                                \
                     "movq %%rcx, %%rsi\n\t"                                              \
                     "leaq -16(%%rcx), %%rdi\n\t"                                         \
                     "movl $3, %%ecx\n\t"                                                 \
                     "rep movsb\n\t"                                                      \
                     "movq %%r11, %%rdi\n\t"                                              \
                     "stosb\n\t"                                                          \
                     :                                                                    \
                     : "c"(end), "d"(1L)                                                  \
                     : "rax", "rsi", "rdi", "r10", "r11", "xmm0", "memory", "cc")

int main(int argc, char **argv) {
    char *block = malloc(64 * argc);
    memset(block, 1, 64);
    OPERANDS(block + 64); /* HERE */
    /* What was written there is the allocator's. */
    _exit(0);
}
