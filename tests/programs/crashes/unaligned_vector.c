// A misaligned movaps.
// info: SIGSEGV
#include "case.h"
int main(void) {
    char room[64] __attribute__((aligned(16)));
    asm volatile("movaps %%xmm0, 1(%0)" ::"r"(room) : "memory");
}
