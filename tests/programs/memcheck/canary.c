// Overwrites the canary of its own frame. libc ends the program.
// finds: canary none 0
// valgrind: no
// flags: -fstack-protector-all
#include <stdio.h>
#include <string.h>

static volatile int count = 40, i;

__attribute__((noinline)) static int fill(void) {
    volatile char text[16];
    for (i = 0; i < count; i++)
        text[i] = 'A'; /* HERE */
    return text[1];
}

int main(void) {
    puts("before");
    fflush(stdout);
    printf("%d\n", fill());
    return 0;
}
