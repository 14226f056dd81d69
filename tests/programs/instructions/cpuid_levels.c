// What CPUID shows at x86-64-v2: nothing above it.
// record: --cpu x86-64-v2
#include "case.h"
#include <cpuid.h>
int main(void) {
    unsigned a, b, c, d;
    if (getenv("DYNAMORIO_OPTIONS"))
        return 1;
    __cpuid(1, a, b, c, d);
    printf("%d %d\n", c >> 20 & 1, c >> 9 & 1);
    // Vector routines of libc follow CPUID: they must still work.
    static char x[10000], y[10000];
    memset(x, 'x', sizeof x - 1);
    memcpy(y, x, sizeof y);
    printf("%d %zu %d\n", strcmp(x, y), strlen(y), memchr(y, 'q', sizeof y) == NULL);
}
