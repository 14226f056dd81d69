// Code is unmapped, and other code mapped at its address: by munmap and mmap, by mmap over it, by mremap over it, and
// from files.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char *const place = (unsigned char *)0x200000000;

static void put(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

int main(void)
{
    int all = PROT_READ | PROT_WRITE | PROT_EXEC, fixed = MAP_PRIVATE | MAP_FIXED;
    int file[2] = { memfd_create("a", 0), memfd_create("b", 0) };
    for (int i = 0; i < 2; i++) {
        unsigned char code[16];
        put(code, 1000 * (i + 1));
        if (ftruncate(file[i], 4096) || pwrite(file[i], code, 6, 0) != 6)
            return 1;
    }
    long sum = 0;
    for (int i = 0; i < 120; i++) {
        unsigned char *got;
        switch (i % 4) {
        case 0:
            munmap(place, 4096);
            __attribute__((fallthrough));
        case 1:
            got = mmap(place, 4096, all, fixed | MAP_ANONYMOUS, -1, 0);
            put(got, i);
            break;
        case 2:
            got = mmap(0, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            put(got, i);
            got = mremap(got, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            break;
        default:
            got = mmap(place, 4096, PROT_READ | PROT_EXEC, fixed, file[i / 4 % 2], 0);
        }
        if (got != place)
            return 2;
        sum = sum * 3 + ((int (*)(void))place)();
    }
    printf("%ld\n", sum);
    return 0;
}
