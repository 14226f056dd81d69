// Indirect branches to address 0, of each kind: the handler says what the kernel says of it, and what the stack pointer, the flags and other registers are,
// and goes on behind the branch.
#include "case.h"

char *stack;
void *behind, *zero;

// A function that does `before`, sets the flags, and branches.
#define BRANCH(name, before, branch)                                                                                    \
    void name(void);                                                                                                    \
    asm(#name ": mov %rsp, stack(%rip)\n lea 1f(%rip), %rax\n mov %rax, behind(%rip)\n xor %ecx, %ecx\n mov $5, %esi\n" \
              "mov %rsi, %rdi\n" before "\n cmp $6, %rsi\n " branch "\n 1: ret")

BRANCH(jump_register, "", "jmp *%rcx");
BRANCH(jump_memory, "", "jmp *zero(%rip)");
BRANCH(call_register, "", "call *%rcx");
BRANCH(call_memory, "lea zero(%rip), %rdx", "call *(%rdx, %rcx)");
BRANCH(return_plain, "push %rcx", "ret");
BRANCH(return_more, "sub $24, %rsp\n push %rcx", "ret $24");

static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("%d (%d) at %lld for %p: stack %+d, flags %#llx, registers %lld %lld %lld\n", signal, info->si_code, regs[REG_RIP],
           info->si_addr, (int)((char *)regs[REG_RSP] - stack), regs[REG_EFL] & 0x8d5, regs[REG_RSI], regs[REG_RDI], regs[REG_RCX]);
    if ((char *)regs[REG_RSP] != stack) {
        printf("pushed: %d\n", *(void **)regs[REG_RSP] == behind);
    }
    regs[REG_RIP] = (greg_t)behind;
    regs[REG_RSP] = (greg_t)stack;
}

int main(void) {
    on(SIGSEGV, handler, 0);
    for (int n = 0; n < 3; n++) {
        jump_register();
        jump_memory();
        call_register();
        call_memory();
        return_plain();
        return_more();
    }
}
