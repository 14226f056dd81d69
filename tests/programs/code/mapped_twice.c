// One page at two addresses: code is written at one, and runs at the other.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    int file = memfd_create("code", 0);
    if (file < 0 || ftruncate(file, 8192))
        return 1;
    unsigned char *writable = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *executable = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (writable == MAP_FAILED || executable == MAP_FAILED)
        return 2;
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        int at = 16 * (i % 5);
        writable[at] = 0xb8;
        memcpy(writable + at + 1, &i, 4);
        writable[at + 5] = 0xc3;
        int got = ((int (*)(void))(executable + at))();
        if (got != i) {
            printf("turn %d: %d\n", i, got);
            return 3;
        }
        sum = sum * 3 + got;
    }
    printf("%ld\n", sum);
    return 0;
}
