// Protection keys: where CPUID shows none, the kernel gives none, and mprotect by way of them works without.
#include "case.h"
#include <cpuid.h>
int main(void) {
    unsigned a, b, c = 0, d;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    int shown = c >> 4 & 1;
    long key = syscall(SYS_pkey_alloc, 0, 0);
    EXPECT(shown ? key > 0 : key == -1);
    if (key > 0) {
        EXPECT(syscall(SYS_pkey_free, key) == 0);
    } else {
        EXPECT(syscall(SYS_pkey_free, 1) == -1 && errno == EINVAL);
    }
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    EXPECT(syscall(SYS_pkey_mprotect, page, 4096, PROT_READ, 5) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_pkey_mprotect, page, 4096, PROT_READ, -1) == 0);
    EXPECT(page[17] == 0);
    EXPECT(syscall(SYS_pkey_mprotect, page, 4096, PROT_READ | PROT_WRITE, -1) == 0);
    page[17] = 3;
    printf("%d\n", page[17]);
}
