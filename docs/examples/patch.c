/* A calculator that makes its own code: `multiply` is written once, and patched for each new factor. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef int (*function)(int);

static unsigned char *code;

static function make(int factor)
{
    static const unsigned char template[] = { 0x69, 0xc7, 0, 0, 0, 0, 0xc3 }; /* imul eax, edi, factor; ret */
    memcpy(code, template, sizeof template);
    memcpy(code + 2, &factor, sizeof factor);
    return (function)code;
}

static void patch(int factor)
{
    code[2] = factor; /* the bug: only the lowest byte of four */
}

int main(void)
{
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    function multiply = make(1000);
    printf("3 * 1000 = %d\n", multiply(3));
    patch(7);
    printf("3 * 7 = %d\n", multiply(3));
    return 0;
}
