// A handler that changes its context: rip, registers, flags, xmm, x87, the mask.
#include "case.h"
extern char there[];
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    greg_t *r = u->uc_mcontext.gregs;
    r[REG_RIP] = (greg_t)there;
    r[REG_RAX] = 0x1111;
    r[REG_RBX] = 0x2222;
    r[REG_RCX] = 0x3333;
    r[REG_RDX] = 0x4444;
    r[REG_RSI] = 0x5555;
    r[REG_RDI] = 0x6666;
    r[REG_R8] = 0x8888;
    r[REG_R11] = 0xbbbb;
    r[REG_R15] = 0xffff;
    r[REG_EFL] |= 0x41; // carry and zero
    for (int x = 0; x < 4; x++)
        u->uc_mcontext.fpregs->_xmm[9].element[x] = 0x99999999 + x;
    u->uc_mcontext.fpregs->mxcsr |= 0x8000;
    sigaddset(&u->uc_sigmask, SIGUSR2);
}
int main(void) {
    on(SIGILL, handler, 0);
    uint64_t r[10];
    uint32_t x[4], csr;
    asm volatile("ud2\n mov $0, %%eax\n jmp there\n .globl there\nthere:\n"
                 "pushf\n pop 72+%0\n mov %%rax, %0\n mov %%rbx, 8+%0\n mov %%rcx, 16+%0\n mov %%rdx, 24+%0\n mov %%rsi, 32+%0\n"
                 "mov %%rdi, 40+%0\n mov %%r8, 48+%0\n mov %%r11, 56+%0\n mov %%r15, 64+%0\n movups %%xmm9, %1\n stmxcsr %2\n"
                 : "=m"(r), "=m"(x), "=m"(csr)
                 :
                 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r11", "r15", "xmm9", "memory", "cc");
    for (int n = 0; n < 9; n++)
        printf("%lx ", r[n]);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("%lx ", r[9] & 0x41);
    printf("%x %x %x %x\n", x[0], x[3], csr & 0x8000, sigismember(&now, SIGUSR2));
}
