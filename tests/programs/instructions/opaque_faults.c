// Stores of state that is not recorded, to memory that is not there, partly there, and there at the second attempt.
#include "case.h"
static sigjmp_buf behind;
static char *end;
static int faults, open_it;
static void on_fault(int signal, siginfo_t *info, void *context) {
    faults++;
    if (open_it)
        EXPECT(mprotect(end, 4096, PROT_READ | PROT_WRITE) == 0);
    else
        siglongjmp(behind, 1);
}
#define STORE(instruction, at)                                                                                         \
    if (!sigsetjmp(behind, 1)) {                                                                                       \
        asm volatile(instruction " (%0)" ::"r"(at) : "memory");                                                        \
    }
int main(void) {
    on(SIGSEGV, on_fault, 0);
    end = page_end();
    for (open_it = 0; open_it < 2; open_it++) {
        EXPECT(mprotect(end, 4096, PROT_NONE) == 0);
        STORE("fldpi\n fxsave64", end);
        EXPECT(mprotect(end, 4096, PROT_NONE) == 0);
        STORE("fxsave64", end - 256);
        EXPECT(mprotect(end, 4096, PROT_NONE) == 0);
        STORE("fnsave", end - 60);
        EXPECT(mprotect(end, 4096, PROT_NONE) == 0);
        STORE("fnstenv", end);
        EXPECT(mprotect(end, 4096, PROT_NONE) == 0);
        STORE("sgdt", end);
        asm volatile("fninit");
    }
    uint64_t sum = 0;
    for (int i = 0; i < 108 - 60; i++)
        sum = sum * 31 + (unsigned char)end[i];
    printf("%d faults, %d\n", faults, sum != 0);
}
