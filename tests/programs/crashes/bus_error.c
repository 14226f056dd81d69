// A mapping beyond the end of its file.
// info: SIGBUS
#include "case.h"
int main(void) {
    char name[] = "busXXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    volatile char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    return p[10];
}
