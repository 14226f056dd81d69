// A limit of file sizes below what a log needs: recording ends, and the program, which would die of SIGXFSZ, goes on.
// message: File too large
#include "case.h"
#include <sys/resource.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}) == 0);
    static int numbers[200000];
    unsigned seed = 1;
    for (int i = 0; i < 200000; i++)
        numbers[i] = (seed = seed * 1103515245 + 12345) >> 8;
    qsort(numbers, 200000, sizeof *numbers, compare);
    printf("%d %d\n", numbers[0], numbers[199999]);
    return 0;
}
