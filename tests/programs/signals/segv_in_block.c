// Faults in the middle of a block; the handler makes the page accessible, and the registers are as they were.
#include "case.h"
static char *page;
static volatile int faults;
static uint64_t seen[4];
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    EXPECT((char *)i->si_addr == page + 24 && i->si_code == SEGV_ACCERR);
    seen[0] = u->uc_mcontext.gregs[REG_RBX];
    seen[1] = u->uc_mcontext.gregs[REG_R12];
    seen[2] = u->uc_mcontext.gregs[REG_RCX];
    seen[3] = u->uc_mcontext.gregs[REG_EFL] & 0x8d5;
    EXPECT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    faults++;
}
int main(void) {
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, handler, 0);
    for (int n = 0; n < 50; n++) {
        uint64_t value = n;
        mprotect(page, 4096, PROT_NONE);
        asm volatile("mov $11, %%ebx\n mov $12, %%r12d\n lea 5(%%rbx), %%rcx\n add %%r12, %%rbx\n cmp %%rcx, %%rbx\n"
                     "mov %0, 24(%1)\n adc $0, %%rbx\n mov 24(%1), %0\n add %%rbx, %0\n"
                     : "+r"(value)
                     : "r"(page)
                     : "rbx", "rcx", "r12", "cc", "memory");
        EXPECT(value == n + 23);
        EXPECT(seen[0] == 23 && seen[1] == 12 && seen[2] == 16 && (seen[3] & 0x41) == 0);
    }
    // A load, an indirect call through memory, a push: each faults first.
    for (int n = 0; n < 20; n++) {
        mprotect(page, 4096, PROT_NONE);
        uint64_t value;
        asm volatile("mov $3, %%eax\n imul $7, %%rax, %%rax\n mov 24(%1), %0\n add %%rax, %0" : "=&r"(value) : "r"(page) : "rax", "cc");
        EXPECT(value == 49 + 23 - 2);
    }
    printf("%d\n", faults);
}
