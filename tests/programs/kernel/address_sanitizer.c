// AddressSanitizer: a shadow of 14 TB, and at the end a process that shares the memory and stops the program, by ptrace, to look for leaks.
// flags: -fsanitize=address
// intervals: no
#include "case.h"
const char *__asan_default_options(void) { return "log_path=/dev/null:symbolize=0:exitcode=23"; }
static void *volatile kept;
static __attribute__((noinline)) void leak(int count) {
    for (int i = 0; i < count; i++)
        memset(malloc(100), i, 100);
}
int main(void) {
    char *p = kept = malloc(1000);
    memset(p, 1, 1000);
    leak(20);
    printf("%d\n", p[999]);
    return 0;
}
