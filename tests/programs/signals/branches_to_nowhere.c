// Indirect branches to addresses that are none (non-canonical ones), of each kind: they fault at the branch itself, which has neither
// pushed nor popped anything. The handler says what it sees, and goes on behind the branch.
// flags: -mno-red-zone
#include "case.h"

char *stack;
void *behind, *branch, *nowhere = (void *)0x1234567890abcdef;

// A function that does `before`, sets the flags, and branches.
#define BRANCH(name, before, instruction)                                                                               \
    void name(void);                                                                                                    \
    asm(#name ": mov nowhere(%rip), %rcx\n lea 1f(%rip), %rax\n mov %rax, behind(%rip)\n"                               \
              "lea 2f(%rip), %rax\n mov %rax, branch(%rip)\n mov $5, %esi\n mov %rsi, %rdi\n xor %edx, %edx\n" before  \
              "\n mov %rsp, stack(%rip)\n cmp $6, %rsi\n 2: " instruction "\n 1: ret")

BRANCH(jump_register, "", "jmp *%rcx");
BRANCH(jump_memory, "", "jmp *nowhere(%rip)");
BRANCH(call_register, "", "call *%rcx");
BRANCH(call_memory, "lea nowhere(%rip), %rax", "call *(%rax, %rdx)");
BRANCH(return_plain, "push %rcx", "ret");
BRANCH(return_more, "sub $24, %rsp\n push %rcx", "ret $24");
BRANCH(return_repeated, "push %rcx", "rep ret");

char *own_stack;
static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("%d code %d for %p at the branch %+d: stack %+d, flags %#llx, registers %lld %lld %llx\n", signal, info->si_code,
           info->si_addr, (int)((char *)regs[REG_RIP] - (char *)branch), (int)((char *)regs[REG_RSP] - stack),
           regs[REG_EFL] & 0x8d5, regs[REG_RSI], regs[REG_RDI], regs[REG_RCX]);
    regs[REG_RIP] = (greg_t)behind;
    regs[REG_RSP] = (greg_t)own_stack;
}

// The stack pointer behind it is that of the call.
#define TRY(name)                                                                                                       \
    do {                                                                                                                \
        printf(#name ": ");                                                                                             \
        asm volatile("lea -8(%%rsp), %%rax\n mov %%rax, own_stack(%%rip)\n call " #name ::: "rax", "rcx", "rdx", "rsi",  \
                     "rdi", "memory", "cc");                                                                            \
    } while (0)

int main(void) {
    on(SIGSEGV, handler, 0);
    for (int n = 0; n < 3; n++) {
        TRY(jump_register);
        TRY(jump_memory);
        TRY(call_register);
        TRY(call_memory);
        TRY(return_plain);
        TRY(return_more);
        TRY(return_repeated);
    }
}
