// wrfsbase and wrgsbase without a look at CPUID.
#include "case.h"
#include <asm/prctl.h>
#include <sys/auxv.h>
static uint64_t area[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, 1); }
int main(void) {
    on(SIGILL, handler, 0);
    if (sigsetjmp(out, 1))
        skip("no FSGSBASE");
    uint64_t fs, gs, x = 0, y = 0, sum = 0;
    asm volatile("rdfsbase %0\n rdgsbase %1" : "=r"(fs), "=r"(gs));
    for (int n = 0; n < 20; n++) {
        asm volatile("wrgsbase %2\n mov %%gs:8, %0\n rdgsbase %1" : "=r"(x), "=r"(y) : "r"(&area[n % 4]));
        EXPECT(x == n % 4 + 2 && y == (uint64_t)&area[n % 4]);
        sum += x;
        uint64_t twin[8] = {n, 7};
        asm volatile("wrfsbase %2\n mov %%fs:8, %0\n wrfsbase %1" : "=&r"(x) : "r"(fs), "r"(twin));
        EXPECT(x == 7);
    }
    EXPECT(syscall(SYS_arch_prctl, ARCH_GET_GS, &y) == 0 && y == (uint64_t)&area[3]);
    asm volatile("wrgsbase %0" ::"r"(gs));
    printf("%lu\n", sum);
}
