// Functions written into a page and run, many of them at the same address, and called again after each change.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// mov eax, value; ret
static int call_constant(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
    return ((int (*)(void))at)();
}

int main(void)
{
    unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    long sum = 0;
    for (int i = 0; i < 300; i++)
        sum = sum * 3 + call_constant(page + 64 * (i % 7), i);
    // Across the border of the two pages, at each offset.
    for (int i = 0; i < 8; i++)
        sum = sum * 3 + call_constant(page + 4096 - i, i);
    printf("%ld\n", sum);
    return 0;
}
