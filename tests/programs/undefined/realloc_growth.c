// What realloc adds is not set, what there was is.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    long *numbers = malloc(4 * sizeof *numbers);
    for (int i = 0; i < 4; i++)
        numbers[i] = i;
    numbers = realloc(numbers, 400 * sizeof *numbers);
    for (int i = 0; i < 4; i++)
        if (numbers[i] != i)
            puts("wrong");
    volatile long *more = numbers;
    if (more[200] == 3) /* HERE */
        puts("three");
    free(numbers);
    return 0;
}
