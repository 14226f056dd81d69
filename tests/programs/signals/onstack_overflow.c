// The main stack overflows; the handler runs on the alternate stack and jumps out.
// flags: -Wno-infinite-recursion
#include "case.h"
#include <sys/resource.h>
static sigjmp_buf out;
static volatile int overflows;
static void handler(int s, siginfo_t *i, void *c) {
    overflows++;
    siglongjmp(out, 1);
}
static __attribute__((noinline)) int deeper(volatile int n) {
    volatile char room[2000];
    room[0] = n;
    return deeper(n + 1) + room[0];
}
int main(void) {
    struct rlimit r = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &r);
    stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
    EXPECT(sigaltstack(&s, NULL) == 0);
    on(SIGSEGV, handler, SA_ONSTACK);
    for (volatile int n = 0; n < 3; n++)
        if (sigsetjmp(out, 1) == 0)
            deeper(0);
    printf("%d\n", overflows);
}
