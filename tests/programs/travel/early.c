/* Writes to memory at the beginning, and to other memory for long. */
#include <stdlib.h>

static char early[4 * 4096] __attribute__((aligned(4096)));
static volatile long sum;

int main(void)
{
    for (int i = 0; i < 2 * 4096; i++)
        early[i] = (char)(i % 100);
    for (long i = 0; i < 300000; i++)
        sum += i;
    return sum == 0;
}
