// A 32-bit system call whose number is that of another 64-bit one.
// message: 32-bit system call 4
#include "case.h"
int main(void) {
    char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    EXPECT(text != MAP_FAILED);
    strcpy(text, "text\n");
    long r = 4;
    asm volatile("int $0x80" : "+a"(r) : "b"(1), "c"(text), "d"(5) : "r8", "r9", "r10", "r11", "memory");
    return r == 5 ? 0 : 1;
}
