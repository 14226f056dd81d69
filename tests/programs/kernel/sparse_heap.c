// 8 GB of memory, touched sparsely.
// intervals: no
#include "case.h"
int main(void) {
    size_t size = 8ull << 30;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        skip("8 GB cannot be reserved here");
    uint64_t sum = 0;
    for (size_t at = 0; at < size; at += 4 << 20)
        p[at + at % 4093] = at >> 22;
    for (size_t at = 0; at < size; at += 4 << 20)
        sum += (unsigned char)p[at + at % 4093] + p[at + 4095];
    printf("%lu\n", sum);
}
