// glibc finds a smashed stack.
// info: SIGABRT
// flags: -fstack-protector-all -Wno-array-bounds -Wno-stringop-overflow
#include "case.h"
static __attribute__((noinline)) void smash(volatile char *p, int n) {
    while (n--)
        p[n] = 'x';
}
static __attribute__((noinline)) int victim(int n) {
    volatile char room[16];
    smash(room, n);
    return room[3];
}
int main(void) { return victim(48); }
