// Overwrites the canary of its own frame twice. The first store is wrong, not the last one.
// finds: canary none 0
// valgrind: no
// flags: -fstack-protector-all
#include <stdio.h>

static volatile int count = 40, i;

__attribute__((noinline)) static int fill(void) {
    volatile char text[24];
    for (i = 0; i < count; i++)
        text[i] = 'A'; /* HERE */
    for (i = 24; i < count; i++)
        text[i] = 'B';
    return text[1];
}

int main(void) {
    puts("before");
    fflush(stdout);
    printf("%d\n", fill());
    return 0;
}
