// A program that limits its own address space.
#include "case.h"
#include <sys/resource.h>
int main(void) {
    struct rlimit r = {256 << 20, 256 << 20};
    EXPECT(setrlimit(RLIMIT_AS, &r) == 0);
    EXPECT(malloc(1ull << 30) == NULL && errno == ENOMEM);
    char *p = malloc(1 << 20);
    EXPECT(p != NULL);
    memset(p, 1, 1 << 20);
    work(100000);
    puts("done");
}
