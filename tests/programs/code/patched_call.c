// A call instruction whose target is patched while the program goes through it, as dynamic linkers and tracers do; and
// one that pushes its return address into a page of code.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static long first(long x) { return x + 1; }
static long second(long x) { return x * 3; }
static long third(long x) { return x ^ 0x55; }

int main(void)
{
    long (*targets[])(long) = { first, second, third };
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // sub rsp, 8; movabs rax, target; call rax; add rsp, 8; ret
    static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0,
                                          0x48, 0x83, 0xc4, 8, 0xc3 };
    memcpy(page, code, sizeof code);
    long x = 1;
    for (int i = 0; i < 100; i++) {
        uintptr_t target = (uintptr_t)targets[i % 3];
        memcpy(page + 6, &target, 8);
        x = ((long (*)(long))page)(x) & 0xffffff;
    }
    printf("%ld\n", x);
    return 0;
}
