/* Writes something, is busy, and writes something else. */
#include <stdio.h>

static volatile int sum;

int main(void)
{
    puts("first");
    fflush(stdout);
    for (int i = 0; i < 20000; i++)
        sum += i;
    sum++; /* BETWEEN */
    puts("second");
    return 0;
}
