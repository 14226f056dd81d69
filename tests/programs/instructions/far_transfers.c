// Far returns, calls and jumps, iret: those that stay in the same segment, and faults of them.
// flags: -static -no-pie
#include "case.h"
static volatile int faults;
static sigjmp_buf back;
static void handler(int s, siginfo_t *i, void *c) {
    printf("  signal %d, code %d\n", s, i->si_code);
    faults++;
    siglongjmp(back, 1);
}
struct __attribute__((packed)) pointer {
    uint32_t offset;
    uint16_t selector;
} pointer;
int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    EXPECT(sigaltstack(&other, NULL) == 0);
    on(SIGSEGV, handler, SA_ONSTACK);
    uint64_t sum = 0, before, behind, flags, word = 0;
    for (int n = 0; n < 1000; n++) {
        asm volatile("push %%rbx\n mov %%cs, %%eax\n push %%rax\n lea 1f(%%rip), %%rax\n push %%rax\n lretq\n ud2\n 1: pop %%rbx\n add $3, %0"
                     : "+r"(sum)::"rax", "memory", "cc");
    }
    printf("lretq %lu\n", sum);
    asm volatile("mov %%rsp, %0\n push $7\n push $8\n mov %%cs, %%eax\n sub $8, %%rsp\n mov %%eax, 4(%%rsp)\n movl $1f, (%%rsp)\n lretl $16\n ud2\n 1: mov %%rsp, %1"
                 : "=&r"(before), "=&r"(behind)::"rax", "memory");
    printf("lret $16: %ld\n", before - behind);
    for (int n = 0; n < 100; n++) {
        asm volatile("mov %%rsp, %%rbx\n mov %%ss, %%eax\n push %%rax\n push %%rbx\n pushq %2\n mov %%cs, %%eax\n push %%rax\n lea 1f(%%rip), %%rax\n push %%rax\n iretq\n ud2\n 1: mov %%rsp, %0\n sub %%rbx, %0\n"
                     "pushf\n pop %1\n cld"
                     : "=&r"(before), "=&r"(flags)
                     : "r"(0x202 | (n % 2 ? 0x8d5ul : 0x400ul))
                     : "rax", "rbx", "memory", "cc");
        EXPECT(before == 0);
        word = word * 7 + (flags & 0xcd5);
    }
    printf("iretq %lx\n", word);
    asm volatile("mov %%cs, %0" : "=m"(pointer.selector));
    asm volatile("mov %%rsp, %0\n movl $1f, pointer(%%rip)\n ljmp *pointer(%%rip)\n ud2\n 1: mov %%rsp, %1" : "=&r"(before), "=&r"(behind)::"memory");
    printf("ljmp %ld\n", before - behind);
    asm volatile("mov %%rsp, %%rbx\n sub $256, %%rsp\n movl $1f, pointer(%%rip)\n xor %%ecx, %%ecx\n lcall *pointer(%%rip)\n jmp 2f\n"
                 "1: mov 4(%%rsp), %k0\n inc %%ecx\n lretl\n 2: add $256, %%rsp\n mov %%rsp, %1\n sub %%rbx, %1"
                 : "=&r"(word), "=&r"(behind)::"rbx", "rcx", "memory", "cc");
    printf("lcall %lx %ld\n", word, behind);
    // 16-bit operands could return to the first 64 kB only.
    if (!sigsetjmp(back, 1))
        asm volatile("push $0\n push $0x10\n lretq");
    if (!sigsetjmp(back, 1))
        asm volatile("mov %%cs, %%eax\n push %%rax\n movabs $0x8000000000000000, %%rax\n push %%rax\n lretq" ::: "rax");
    if (!sigsetjmp(back, 1))
        asm volatile("mov %0, %%rsp\n lretq" ::"r"(16l));
    if (!sigsetjmp(back, 1))
        asm volatile("ljmp *(%0)" ::"r"(32l));
    printf("%d faults\n", faults);
}
