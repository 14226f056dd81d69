/* Two values that are on the x87 unit's stack at the same time, and change places there. */

#include <stdlib.h>

long double one, other;

__attribute__((noinline)) static void compute(int times) {
    long double sum = 0;
    long double power = 1;
    for (int i = 0; i < times; i++) {
        sum += i; /* adds */
        power *= 3; /* multiplies */
    }
    one = sum;
    other = power;
}

int main(void) {
    compute(atoi("7"));
    abort();
}
