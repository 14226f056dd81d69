// A page that is writable, then executable, never both: code written anew between.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    long size = 4 * 4096;
    unsigned char *code = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        if (mprotect(code, size, PROT_READ | PROT_WRITE))
            return 2;
        for (int at = 0; at < size; at += 1000) {
            int value = i * 7 + at;
            code[at] = 0xb8;
            memcpy(code + at + 1, &value, 4);
            code[at + 5] = 0xc3;
        }
        if (mprotect(code, size, PROT_READ | PROT_EXEC))
            return 3;
        for (int at = 0; at < size; at += 1000)
            sum = sum * 31 + ((int (*)(void))(code + at))();
    }
    // The kernel writes code, too.
    int ends[2];
    if (pipe(ends))
        return 4;
    for (int i = 0; i < 20; i++) {
        unsigned char bytes[6] = { 0xb8, (unsigned char)i, 1, 0, 0, 0xc3 };
        if (mprotect(code, 4096, PROT_READ | PROT_WRITE) || write(ends[1], bytes, 6) != 6 || read(ends[0], code, 6) != 6
            || mprotect(code, 4096, PROT_READ | PROT_EXEC))
            return 5;
        sum = sum * 31 + ((int (*)(void))code)();
    }
    printf("%lx\n", sum);
    return 0;
}
