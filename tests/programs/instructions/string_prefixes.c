// String instructions with FS and GS, with 32-bit addresses, and with REPNE where that means REP: results, faults in their
// middle, signals meanwhile.
#include "case.h"
#include <asm/prctl.h>
#define PAGES 6
static uint8_t *base, *guard;
static volatile int faults, ticks;
// What of an address depends on where memory is.
static uint64_t low(uint64_t address) {
    uint64_t from = (uint32_t)address - (uint64_t)base;
    return from < PAGES * 4096 ? (uint64_t)base : 0;
}
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    uint64_t si = u->uc_mcontext.gregs[REG_RSI], di = u->uc_mcontext.gregs[REG_RDI];
    printf("  fault at %ld, error %lld, rcx %llx, rsi %lx, rdi %lx, flags %llx\n", (long)((uint8_t *)i->si_addr - base),
           u->uc_mcontext.gregs[REG_ERR] & 2, u->uc_mcontext.gregs[REG_RCX], si - low(si), di - low(di),
           u->uc_mcontext.gregs[REG_EFL] & 0x4d5);
    EXPECT(mprotect(guard, 4096, PROT_READ | PROT_WRITE) == 0);
    faults++;
}
static void tick(int s, siginfo_t *i, void *c) { ticks++; }
struct regs {
    uint64_t rax, rcx, rsi, rdi, flags;
};
static struct regs r;
// Executes the bytes of one instruction; DF as in r.flags.
#define RUN(name, bytes)                                                                                               \
    do {                                                                                                               \
        asm volatile("push %4\n popfq\n .byte " bytes "\n pushfq\n pop %4\n cld"                                       \
                     : "+a"(r.rax), "+c"(r.rcx), "+S"(r.rsi), "+D"(r.rdi), "+r"(r.flags)                               \
                     :                                                                                                 \
                     : "memory", "cc");                                                                                \
        uint64_t sum = 0;                                                                                              \
        for (int k = 0; k < PAGES * 4096; k++)                                                                         \
            sum = sum * 31 + base[k];                                                                                  \
        printf("%s: rax %lx, rcx %lx, rsi %lx, rdi %lx, flags %lx; %lx\n", name, r.rax, r.rcx,                         \
               r.rsi - low(r.rsi), r.rdi - low(r.rdi), r.flags & 0x4d5, sum);                                          \
    } while (0)
static void fill(void) {
    for (int k = 0; k < PAGES * 4096; k++)
        base[k] = k * 7 + k / 256;
}
static void set(uint64_t rcx, uint64_t rsi, uint64_t rdi, int down) {
    r = (struct regs){0x1122334455667788, rcx, rsi, rdi, down ? 0x602 : 0x202};
}
int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    base = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    EXPECT(base != MAP_FAILED);
    on(SIGSEGV, handler, 0);
    fill();
    uint64_t b = (uint64_t)base, high = 0xabcd00000000;
    EXPECT(syscall(SYS_arch_prctl, ARCH_SET_GS, b + 64) == 0);
    for (int down = 0; down < 2; down++) {
        printf("direction %d\n", down);
        set(0, 1000, b + 1200, down);
        RUN("gs lodsb", "0x65, 0xac");
        RUN("gs lodsq", "0x65, 0x48, 0xad");
        RUN("gs movsd", "0x65, 0xa5");
        RUN("gs cmpsw", "0x65, 0x66, 0xa7");
        RUN("gs rep movsb, none", "0x65, 0xf3, 0xa4");
        r.rcx = 300;
        RUN("gs rep movsb", "0x65, 0xf3, 0xa4");
        set(50, 3000, b + 2000, down);
        RUN("gs rep movsq", "0x65, 0xf3, 0x48, 0xa5");
        set(50, 3000, b + 2000 + 64, down);
        RUN("gs repe cmpsb", "0x65, 0xf3, 0xa6");
        memmove(base + 5000, base + 5064, 100);
        set(40, 5000 + 30, b + 5000 + 30 - 64 + 64, down);
        RUN("gs repe cmpsb, equal", "0x65, 0xf3, 0xa6");
        set(40, 5000 + 30, b + 5000 + 31, down);
        RUN("gs repne cmpsd", "0x65, 0xf2, 0xa7");
        set(20, 5000, 0, down);
        RUN("gs rep lodsw", "0x65, 0xf3, 0x66, 0xad");
        set(33, b + 400, b + 900, down);
        RUN("repne movsb", "0xf2, 0xa4");
        set(33, b + 400, b + 900, down);
        RUN("repne stosd", "0xf2, 0xab");
        set(33, b + 400, b + 900, down);
        RUN("repne lodsq", "0xf2, 0x48, 0xad");
        set(33 | high, (b + 1400) | high, (b + 1900) | high, down);
        RUN("addr32 rep movsw", "0x67, 0x66, 0xf3, 0xa5");
        set(33 | high, (b + 1400) | high, (b + 1900) | high, down);
        RUN("addr32 rep stosb", "0x67, 0xf3, 0xaa");
        set(33 | high, (b + 1400) | high, (b + 1900) | high, down);
        RUN("addr32 repne scasb", "0x67, 0xf2, 0xae");
        set(500, b, b + 2500, down);
        r.rax = 0x47;
        RUN("addr32 repne scasb, found", "0x67, 0xf2, 0xae");
        set(33 | high, 1400 | high, (b + 1900) | high, down);
        RUN("gs addr32 rep movsd", "0x65, 0x67, 0xf3, 0xa5");
        set(1 | high, 1400 | high, (b + 1900) | high, down);
        RUN("gs addr32 lodsd", "0x65, 0x67, 0xad");
        set(100, b + 600, b + 601, down);
        RUN("repne movsb, overlapping", "0xf2, 0xa4");
    }
    for (int down = 0; down < 2; down++) {
        printf("faults, direction %d\n", down);
        guard = base + 2 * 4096;
        uint64_t start = down ? 3 * 4096 + 100 : 2 * 4096 - 100;
        mprotect(guard, 4096, PROT_NONE);
        set(300, start - 64, b + 1000, down);
        RUN("gs rep movsb, reading", "0x65, 0xf3, 0xa4");
        mprotect(guard, 4096, PROT_READ);
        set(300, 16000, b + start, down);
        RUN("gs rep movsb, writing", "0x65, 0xf3, 0xa4");
        mprotect(guard, 4096, PROT_NONE);
        set(300, 0, b + start, down);
        RUN("repne stosb", "0xf2, 0xaa");
        mprotect(guard, 4096, PROT_NONE);
        set(100, 0, b + start + 4, down);
        RUN("addr32 rep stosq, across", "0x67, 0xf3, 0x48, 0xab");
        mprotect(guard, 4096, PROT_NONE);
        set(100, b + start - 3, 0, down);
        RUN("repne lodsq, across", "0xf2, 0x48, 0xad");
        memset(base + 2 * 4096 - 200, 7, 5000);
        memset(base + 4 * 4096, 7, 400);
        mprotect(guard, 4096, PROT_NONE);
        set(300, start - 64, b + 4 * 4096 + 50 + down * 300, down);
        RUN("gs repe cmpsb", "0x65, 0xf3, 0xa6");
        mprotect(guard, 4096, PROT_NONE);
        set(300, 0, b + start, down);
        RUN("addr32 repne scasb", "0x67, 0xf2, 0xae");
        mprotect(guard, 4096, PROT_NONE);
        set(0, 2 * 4096, b, down);
        RUN("gs lodsb", "0x65, 0xac");
    }
    printf("%d faults\n", faults);
    on(SIGALRM, tick, SA_RESTART);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int n = 0; n < 200000 && (n < 20 || ticks < 3); n++) {
        uint64_t count = 12000, from = 0, to = b + 12000 - 64;
        asm volatile(".byte 0x65, 0xf3, 0xa4" : "+S"(from), "+D"(to), "+c"(count)::"memory");
        EXPECT(count == 0 && from == 12000 && to == b + 24000 - 64);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("signals: %d\n", ticks >= 3);
    EXPECT(syscall(SYS_arch_prctl, ARCH_SET_GS, 0) == 0);
    // FS is where the C library has its own.
    uint64_t word, at = 0;
    asm volatile(".byte 0x64, 0x48, 0xad" : "=a"(word), "+S"(at)::"memory");
    uint64_t self;
    asm volatile("mov %%fs:0, %0" : "=r"(self));
    printf("fs: %d\n", word == self && at == 8);
}
