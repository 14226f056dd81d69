// mlock and mlockall.
#include "case.h"
#include <sys/resource.h>
int main(void) {
    char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mlock(p, 65536) == 0 || errno == EPERM || errno == ENOMEM);
    memset(p, 3, 65536);
    EXPECT(munlock(p, 65536) == 0);
    int r = mlockall(MCL_CURRENT | MCL_FUTURE);
    EXPECT(r == 0 || errno == EPERM || errno == ENOMEM);
    for (int n = 0; n < 20; n++) {
        char *q = malloc(100000);
        EXPECT(q != NULL);
        q[5000] = n;
        free(q);
    }
    munlockall();
    puts("done");
}
