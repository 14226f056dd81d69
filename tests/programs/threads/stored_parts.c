/* Stores of parts of vector registers, and those past the caches, to memory that threads share: what is stored must be what
 * is read later, also with a shadow that is at no distance (the memory lies all over the address space).
 *
 * test: 300
 * soak: 20000
 */
#include "threads.h"
#include <sys/mman.h>

enum { FORMS = 26, ROOM = 32, PLACES = 12, COUNT = 3 };
static long rounds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char (*places[PLACES])[ROOM];

/* RDI: where to. */
#define STORE(form, load, instruction)                                                                                   \
    __asm__ volatile(load "\n" instruction                                                                             \
                     : : "D"(to[form]), "m"(*(const uint64_t(*)[4])value), "a"(value[0]) : "xmm0", "mm0", "memory")
#define SSE(form, instruction) STORE(form, "movdqu %1, %%xmm0", instruction " %%xmm0, (%%rdi)")
#define AVX(form, instruction) STORE(form, "vmovdqu %1, %%xmm0", instruction " %%xmm0, (%%rdi)")
#define WIDE(form, instruction) STORE(form, "vmovdqu %1, %%ymm0", instruction " %%ymm0, (%%rdi)\nvzeroupper")
#define MMX(form, instruction) STORE(form, "movq %1, %%mm0", instruction "\nemms")

static void store(unsigned char (*to)[ROOM], const uint64_t *value)
{
    SSE(0, "movss");
    SSE(1, "movsd");
    SSE(2, "movd");
    STORE(3, "movdqu %1, %%xmm0", ".byte 0x66, 0x48, 0x0f, 0x7e, 0x07"); /* movq as movd */
    SSE(4, "movq");
    SSE(5, "movlps");
    SSE(6, "movlpd");
    SSE(7, "movhps");
    SSE(8, "movhpd");
    SSE(9, "movntps");
    SSE(10, "movntpd");
    SSE(11, "movntdq");
    MMX(12, "movd %%mm0, (%%rdi)");
    MMX(13, "movq %%mm0, (%%rdi)");
    MMX(14, "movntq %%mm0, (%%rdi)");
    MMX(15, ".byte 0x48, 0x0f, 0x7e, 0x07"); /* movq as movd */
    STORE(16, "", "movnti %%rax, (%%rdi)");
    if (__builtin_cpu_supports("avx")) {
        AVX(17, "vmovss");
        AVX(18, "vmovsd");
        AVX(19, "vmovd");
        AVX(20, "vmovq");
        STORE(21, "vmovdqu %1, %%xmm0", ".byte 0xc4, 0xe1, 0xf9, 0x7e, 0x07"); /* vmovq as vmovd */
        AVX(22, "vmovlps");
        AVX(23, "vmovhpd");
        AVX(24, "vmovntps");
        WIDE(25, "vmovntdq");
    }
}

static void *run(void *number)
{
    uint64_t value[4], sum = 0;
    for (long round = 0; round < rounds; round++) {
        unsigned char(*to)[ROOM] = places[round % PLACES];
        for (int i = 0; i < 4; i++)
            value[i] = (uint64_t)(round * 4 + i + 1) * 0x9e3779b97f4a7c15 ^ (uint64_t)number;
        pthread_mutex_lock(&lock);
        store(to, value);
        for (int form = 0; form < 17; form++)
            ENSURE(memcmp(to[form], value + (form == 7 || form == 8), 4) == 0);
        ENSURE(memcmp(to[11], value, 16) == 0);
        pthread_mutex_unlock(&lock);
        /* Without a lock: whatever some thread has stored last. */
        store(to + FORMS, value);
        for (int form = FORMS; form < 2 * FORMS; form++)
            for (int at = 0; at < ROOM; at += 8)
                sum += *(volatile uint64_t *)(to[form] + at);
    }
    return (void *)(sum & 0);
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 300);
    for (long i = 0; i < PLACES; i++) {
        void *at = (void *)(uintptr_t)(0x118000000000 + i * 0x050000000000);
        places[i] = mmap(at, 1 << 14, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (places[i] == MAP_FAILED)
            places[i] = mmap(NULL, 1 << 14, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ENSURE(places[i] != MAP_FAILED);
    }
    run_threads(COUNT, run);
    puts("whole");
    return 0;
}
