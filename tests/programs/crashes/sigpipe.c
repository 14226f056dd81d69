// SIGPIPE of a write that nobody will read.
// info: SIGPIPE
#include "case.h"
int main(void) {
    int p[2];
    EXPECT(pipe(p) == 0);
    close(p[0]);
    if (write(p[1], "x", 1) == 1)
        puts("written");
}
