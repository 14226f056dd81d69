// A sum of numbers, one of which is not set, is compared.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

__attribute__((noipa)) static double sum(const double *numbers, int count) {
    double all = 0;
    for (int i = 0; i < count; i++)
        all += numbers[i];
    return all;
}

int main(void) {
    double *numbers = malloc(4 * sizeof *numbers);
    numbers[0] = numbers[1] = numbers[2] = 2.5;
    if (sum(numbers, 3) > 7)
        puts("more");
    if (sum(numbers, 4) > 100) /* HERE */
        puts("large");
    free(numbers);
    return 0;
}
