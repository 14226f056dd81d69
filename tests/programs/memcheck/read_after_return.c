// Reads a variable of a function that has returned.
// finds: read none 0
// frame: 12 table fill
#include <stdio.h>

static volatile int *kept;

__attribute__((noinline)) static void fill(int count) {
    volatile int table[40];
    for (int i = 0; i < 40; i++)
        table[i] = count * i;
    kept = table;
}

int main(int argc, char **argv) {
    (void)argv;
    fill(argc);
    int third = kept[3]; /* HERE */
    printf("%d\n", third);
    return 0;
}
