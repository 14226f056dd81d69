// A variable that only one of two ways sets.
// finds: branch stack

#include <stdio.h>

__attribute__((noipa)) static void set(int *value, int way) {
    if (way > 3)
        *value = way;
}

int main(int argc, char **argv) {
    int chosen;
    set(&chosen, argc);
    if (chosen == 5) /* HERE */
        puts("five");
    puts("done");
    return 0;
}
