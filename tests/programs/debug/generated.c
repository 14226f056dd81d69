/* Code is generated, with a wrong distance in a load. */
#include <string.h>
#include <sys/mman.h>

static void emit(unsigned char *at, int distance)
{
    static const unsigned char load[3] = {0x48, 0x8b, 0x87}; /* mov rax, [rdi + distance] */
    memcpy(at, load, sizeof load);
    for (int i = 0; i < 4; i++)
        at[3 + i] = (unsigned char)(distance >> 8 * i); /* CULPRIT */
    at[7] = 0xc3; /* ret */
}

int main(void)
{
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static long values[4] = {1, 2, 3, 4};
    long (*function)(long *) = (long (*)(long *))code;
    emit(code, 8);
    long sum = function(values);
    emit(code, -0x7fff0000);
    return (int)(sum + function((long *)0x1000));
}
