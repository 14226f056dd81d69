// Loads and reads of segment registers: selectors, bases, faults.
#include "case.h"
#include <asm/ldt.h>
#include <asm/prctl.h>
static volatile int faults;
static sigjmp_buf back;
static void handler(int s, siginfo_t *i, void *c) {
    printf("  signal %d, code %d, address %p\n", s, i->si_code, i->si_addr);
    faults++;
    siglongjmp(back, 1);
}
static uint64_t gs_base(void) {
    uint64_t base;
    EXPECT(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0);
    return base;
}
static void all(const char *what) {
    uint32_t s[6];
    asm volatile("mov %%es, %0\n mov %%cs, %1\n mov %%ss, %2\n mov %%ds, %3\n mov %%fs, %4\n mov %%gs, %5"
                 : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]));
    printf("%s: es %x cs %x ss %x ds %x fs %x gs %x, base %lx\n", what, s[0], s[1], s[2], s[3], s[4], s[5], gs_base());
}
int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    on(SIGSEGV, handler, SA_NODEFER);
    all("start");
    asm volatile("mov %0, %%ds\n mov %0, %%es" ::"r"(0x2b));
    all("ds and es");
    uint16_t memory[4] = {0x23, 0x55, 0x2b, 0};
    asm volatile("mov %0, %%ds\n mov %%ds, %1\n mov %%es, %2" : "+m"(memory[0]), "=m"(memory[1]), "=m"(memory[3]));
    printf("memory %x %x %x %x\n", memory[0], memory[1], memory[2], memory[3]);
    asm volatile("mov %0, %%gs" ::"r"(0x2b));
    all("gs");
    EXPECT(syscall(SYS_arch_prctl, ARCH_SET_GS, (uint64_t)memory & ~0xfff) == 0);
    uint64_t word = 0x1111111111111111, rax = 0x2222222222222222;
    asm volatile("mov %%gs, %w0\n mov %%ds, %1" : "+r"(word), "+r"(rax));
    printf("after arch_prctl: %lx %lx\n", word, rax);
    uint64_t old = gs_base();
    // From memory at GS itself, and the base goes.
    uint16_t *at = (uint16_t *)((uint64_t)memory & 0xfff);
    asm volatile("mov %%gs:4(%0), %%gs" ::"r"(at));
    printf("base %lx, was %d\n", gs_base(), old != 0);
    asm volatile("push %%gs\n pop %0\n push $3\n pop %%gs\n mov %%gs, %1" : "=r"(word), "=r"(rax));
    printf("push and pop: %lx %lx\n", word, rax & 0xffff);
    uint64_t before, behind, stack;
    asm volatile("mov %%rsp, %0\n pushw $0x2b\n popw %%gs\n mov %%rsp, %1\n pushw %%gs\n mov (%%rsp), %w2\n add $2, %%rsp"
                 : "=r"(before), "=r"(behind), "=r"(stack));
    printf("words: %ld %lx\n", before - behind, stack & 0xffff);
    struct __attribute__((packed)) {
        uint32_t offset;
        uint16_t selector;
    } far = {0x12345678, 0x23};
    asm volatile("lgs %1, %k0" : "=r"(rax) : "m"(far));
    printf("lgs %lx\n", rax);
    far.selector = 0x2b;
    asm volatile("lss %1, %k0" : "=r"(rax) : "m"(far));
    printf("lss %lx\n", rax);
    asm volatile("mov %0, %%ss" ::"r"(0x2b));
    all("loaded");
    struct user_desc area = {.entry_number = -1, .base_addr = 0x10203040, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1};
    if (syscall(SYS_modify_ldt, 1, &(struct user_desc){.entry_number = 1, .base_addr = 0x10203040, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1}, sizeof area) == 0) {
        asm volatile("mov %0, %%gs" ::"r"(1 << 3 | 7));
        all("local descriptor");
    }
    for (int n = 0; n < 3; n++) {
        uint32_t wrong[] = {0x18, 0x10, 0xfff8};
        if (!sigsetjmp(back, 1)) {
            if (n == 0)
                asm volatile("mov %0, %%gs" ::"r"(wrong[n]));
            else if (n == 1)
                asm volatile("mov %0, %%ds" ::"r"(wrong[n]));
            else
                asm volatile("mov %0, %%fs" ::"r"(wrong[n]));
            printf("no fault\n");
        }
    }
    if (!sigsetjmp(back, 1))
        asm volatile("mov %0, %%es" : : "m"(*(volatile uint16_t *)16));
    // FS is where the C library has its own: back again at once.
    uint64_t fs, self, loaded = 1;
    EXPECT(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0);
    asm volatile("push %%fs\n mov %3, %%fs\n mov %%fs, %k0\n mov $158, %%eax\n mov $0x1002, %%edi\n mov %2, %%rsi\n syscall\n pop %%rax\n mov %%fs:0, %1"
                 : "=&r"(loaded), "=&r"(self)
                 : "r"(fs), "r"(0x2b)
                 : "rax", "rdi", "rsi", "rcx", "r11", "memory");
    printf("fs %lx %d\n", loaded, self == fs);
    all("end");
    // A child has the same.
    uint64_t base = gs_base();
    asm volatile("mov %%gs, %k0\n mov %%ds, %k1" : "=r"(before), "=r"(behind));
    if (fork() == 0) {
        asm volatile("mov %%gs, %k0\n mov %%ds, %k1" : "=r"(word), "=r"(rax));
        _exit(word == before && rax == behind && gs_base() == base);
    }
    int status;
    wait(&status);
    printf("%d faults, child %d\n", faults, WEXITSTATUS(status));
}
