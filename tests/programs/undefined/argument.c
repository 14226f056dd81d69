// A function is called with a value that is not set: where it decides, it is reported.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) static int added(int one, int other) { return one + other; }

__attribute__((noipa)) static void check(int sum) {
    if (sum > 100) /* HERE */
        puts("large");
}

int main(void) {
    volatile int *numbers = malloc(8);
    numbers[0] = 4;
    check(added(numbers[0], numbers[1]));
    puts("done");
    free((void *)numbers);
    return 0;
}
