// LeakSanitizer alone, in a program that leaks nothing: a process that shares the memory looks, several times, and its status is the program's.
// flags: -fsanitize=leak
// intervals: no
#include "case.h"
int __lsan_do_recoverable_leak_check(void);
static void *volatile kept;
int main(void) {
    for (int i = 0; i < 3; i++) {
        kept = realloc(kept, 1000 * (i + 1));
        printf("%d\n", __lsan_do_recoverable_leak_check());
    }
    return 5;
}
