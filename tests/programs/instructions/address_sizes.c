// 32-bit addresses, 16-bit operands, absolute addresses of 64 bits, RIP-relative operands of all kinds.
// flags: -no-pie
#include "case.h"
static uint64_t m[8] = {1, 2, 3, 4, 5, 6, 7, 8};
int main(void) {
    uint64_t sum = 0;
    for (int n = 0; n < 50; n++) {
        uint64_t x, base = (uint64_t)m | 0xabcd00000000, index = 2 | 0xffff00000000;
        asm volatile("addr32 mov 8(%k1,%k2,8), %0" : "=r"(x) : "r"(base), "r"(index));
        EXPECT(x == 4 + (n ? 0 : 0));
        asm volatile("addr32 lea -16(%k1,%k2,4), %0" : "=r"(x) : "r"(base), "r"(index));
        EXPECT(x == (uint32_t)(uint64_t)m - 8);
        asm volatile("addw $3, %0\n incw 2+%0\n subw $3, %0\n decw 2+%0" : "+m"(m[1])::"cc");
        asm volatile("movabs m_absolute, %%rax\n add %%rax, %0\n movabs %%eax, m_absolute" : "+r"(sum)::"rax", "cc", "memory");
        asm volatile("addq $1, m_absolute(%%rip)\n cmpl $5, m_absolute(%%rip)\n xchg %0, m_absolute(%%rip)\n xchg %0, m_absolute(%%rip)" : "+r"(sum)::"cc", "memory");
        asm volatile("addr32 addl $1, m_absolute(%%eip)" ::: "cc", "memory");
        asm volatile("mov m_absolute, %0" : "=r"(x));
        sum += x;
    }
    printf("%lu\n", sum);
}
asm(".data\nm_absolute: .quad 77\n.text");
