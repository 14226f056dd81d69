// Calls what has nothing to do with the pointer that is wrong, and then uses that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int noise(const char *text) {
    int sum = 0;
    for (int round = 0; round < 500; round++)
        sum += text[round % strlen(text)] * round;
    return sum;
}

static int *choose(int argc, int *one) {
    int *chosen = one;
    if (argc > 1)
        chosen = (int *)8;
    return chosen;
}

int main(int argc, char **argv) {
    int value = atoi("17");
    printf("%d\n", noise(argv[0]));
    int *chosen = choose(argc, &value);
    puts("now");
    return *chosen;
}
