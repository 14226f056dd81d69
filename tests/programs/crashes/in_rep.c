// A crash in the middle of a rep instruction.
// info: SIGSEGV
// info: movsb
#include "case.h"
int main(void) {
    char *to = page_end() - 4096, *from = malloc(10000);
    memset(from, 'x', 10000);
    size_t n = 9000;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}
