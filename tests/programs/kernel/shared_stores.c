// Stores of all kinds to memory into which another process stores at the same time.
#include "case.h"
#define ROUNDS 20000
struct shared {
    volatile int stop;
    char pad[60];
    union {
        volatile uint64_t words[64];
        volatile uint8_t bytes[512];
    };
};
int main(void) {
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char own[256];
    memset(own, 9, sizeof own);
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t n = 0; !s->stop; n++)
            for (int i = 0; i < 32; i++)
                s->words[i] = n * 0x0101010101010101;
        _exit(0);
    }
    uint64_t sum = 0;
    long double third = 1.0L / 3;
    for (uint64_t n = 0; n < ROUNDS; n++) {
        void *at = (void *)s->words, *from = own;
        asm volatile("cmp $5, %b1\n setz (%0)\n sets 8(%0)" ::"r"(at), "r"(n) : "cc", "memory");
        sum = sum * 31 + s->bytes[0] + s->bytes[8];
        asm volatile("fldt %1\n fstpt 16(%0)\n fld1\n fistpl 40(%0)\n fldpi\n fstpl 48(%0)" ::"r"(at), "m"(third) : "memory");
        sum = sum * 31 + s->words[2] + s->bytes[24] + s->words[5] + s->words[6];
        asm volatile("movhps %%xmm0, 56(%0)\n movlps %%xmm0, 64(%0)\n pextrw $1, %%xmm0, %%eax\n stmxcsr 72(%0)\n fnstcw 76(%0)\n pushf\n pop 80(%0)" ::"r"(at) : "rax", "memory");
        sum = sum * 31 + s->words[7] + s->words[8] + s->words[9] + s->words[10];
        long count = 64;
        void *to = at + 96;
        asm volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(n) : "memory");
        count = 7;
        to = at + 168;
        asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count)::"memory");
        from = at + 97;
        to = at + 98;
        count = 20;
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
        for (int i = 12; i < 28; i++)
            sum = sum * 31 + s->words[i];
        asm volatile("maskmovdqu %%xmm1, %%xmm0" ::"D"(at + 230) : "memory");
        sum = sum * 31 + s->words[29];
        asm volatile("mov %%fs, (%0)" ::"r"(at + 240) : "memory");
        sum += s->words[30];
    }
    s->stop = 1;
    wait(NULL);
    // What it is, nobody can know.
    printf("%d\n", sum == 0);
}
