// SIGBUS: a mapped file that has become shorter.
#include "case.h"
static sigjmp_buf out;
static void *where;
static void handler(int s, siginfo_t *i, void *c) {
    where = i->si_addr;
    EXPECT(i->si_code == BUS_ADRERR);
    siglongjmp(out, 1);
}
int main(void) {
    char name[] = "busXXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    EXPECT(ftruncate(fd, 8192) == 0);
    volatile char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    p[5000] = 7;
    EXPECT(p[5000] == 7);
    on(SIGBUS, handler, 0);
    for (int n = 0; n < 10; n++) {
        EXPECT(ftruncate(fd, 100) == 0);
        if (sigsetjmp(out, 1) == 0) {
            if (n & 1)
                p[4096 + n] = 1;
            else
                EXPECT(p[4096 + n] == 1234);
            EXPECT(!"reached");
        }
        EXPECT(where == (void *)&p[4096 + n]);
        EXPECT(ftruncate(fd, 8192) == 0);
        EXPECT(p[5000] == 0);
    }
    puts("done");
}
