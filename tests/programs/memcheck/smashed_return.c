// Overwrites the return address of its own frame. The program dies of it.
// finds: return none 0
// valgrind: no
// flags: -fno-stack-protector
#include <stdio.h>
#include <string.h>

static volatile int count = 12, i;

__attribute__((noinline)) static int fill(void) {
    volatile unsigned long values[4];
    for (i = 0; i < count; i++)
        values[i] = 0x4141414141414141; /* HERE */
    return (int)values[1];
}

int main(void) {
    puts("before");
    fflush(stdout);
    printf("%d\n", fill());
    return 0;
}
