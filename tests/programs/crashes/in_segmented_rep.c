// A crash in the middle of a string instruction with GS.
// info: SIGSEGV
// info: movsb
#include "case.h"
#include <asm/prctl.h>
int main(void) {
    char *to = page_end() - 4096, *from = malloc(10000);
    memset(from, 'x', 10000);
    EXPECT(syscall(SYS_arch_prctl, ARCH_SET_GS, from) == 0);
    size_t n = 9000, at = 0;
    asm volatile(".byte 0x65, 0xf3, 0xa4" : "+D"(to), "+S"(at), "+c"(n)::"memory");
}
