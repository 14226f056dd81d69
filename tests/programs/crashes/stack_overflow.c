// Recursion without end.
// flags: -Wno-infinite-recursion
// info: SIGSEGV
#include "case.h"
#include <sys/resource.h>
static __attribute__((noinline)) int deeper(volatile int n) {
    volatile char room[2000];
    room[0] = n;
    return deeper(n + 1) + room[0];
}
int main(void) {
    struct rlimit r = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &r);
    return deeper(0);
}
