// Faults in the middle of rep instructions, forwards and backwards: pointers and counter stand where it stopped.
#include "case.h"
static char *base, *guard;
static volatile int faults;
static long left, di, si;
static void handler(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    left = u->uc_mcontext.gregs[REG_RCX];
    di = u->uc_mcontext.gregs[REG_RDI] - (long)base;
    si = u->uc_mcontext.gregs[REG_RSI] - (long)base;
    mprotect(guard, 4096, PROT_READ | PROT_WRITE);
    faults++;
}
static void again(int which) {
    guard = base + which * 4096;
    EXPECT(mprotect(guard, 4096, PROT_NONE) == 0);
    left = di = si = -1;
}
int main(void) {
    base = mmap(NULL, 6 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, handler, 0);
    void *to, *from;
    size_t n;
    again(1);
    to = base + 100, n = 6000;
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('s') : "memory");
    EXPECT(n == 0 && to == base + 6100 && base[6099] == 's' && base[6100] == 0);
    printf("stos %ld %ld\n", left, di);
    again(4);
    to = base + 3 * 4096, from = base, n = 8192;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
    EXPECT(n == 0 && memcmp(base, base + 3 * 4096, 8192) == 0);
    printf("movs to %ld %ld %ld\n", left, di, si);
    again(1);
    to = base + 3 * 4096 + 8, from = base + 8, n = 1000;
    asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n)::"memory");
    EXPECT(n == 0);
    printf("movs from %ld %ld %ld\n", left, di, si);
    again(1);
    to = base + 3 * 4096 - 8, n = 1000;
    asm volatile("std\n rep stosq\n cld" : "+D"(to), "+c"(n) : "a"(0x1122334455667788) : "memory", "cc");
    EXPECT(n == 0);
    printf("stos down %ld %ld\n", left, di);
    again(2);
    from = base + 4096, n = 8192;
    uint64_t al;
    asm volatile("rep lodsb" : "=a"(al), "+S"(from), "+c"(n)::"memory");
    printf("lods %ld %ld %lx\n", left, si, al & 0xff);
    again(4);
    from = base, to = base + 3 * 4096, n = 8192;
    memcpy(to, from, 4096);
    mprotect(guard, 4096, PROT_READ | PROT_WRITE);
    memcpy(to, from, 8192);
    again(4);
    asm volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(n)::"memory", "cc");
    printf("cmps %ld %ld %ld; %zu\n", left, di, si, n);
    again(4);
    to = base + 3 * 4096, n = 8192;
    asm volatile("repne scasb" : "+D"(to), "+c"(n) : "a"('!') : "memory", "cc");
    printf("scas %ld %ld; %zu\n", left, di, n);
    printf("%d\n", faults);
}
