// Counts in a variable of a function that has returned, which called others.
// finds: write none 0
// frame: 0 count start
// valgrind: no
#include <stdio.h>

static volatile long *counter;

__attribute__((noinline)) static void start(void) {
    volatile long count = 1;
    counter = &count;
    printf("%ld\n", count);
}

int main(void) {
    start();
    *counter = 2; /* HERE */
    puts("done");
    return 0;
}
