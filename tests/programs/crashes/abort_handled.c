// abort() with a handler that returns: it dies all the same.
// info: SIGABRT
#include "case.h"
static void handler(int s, siginfo_t *i, void *c) {
    if (write(1, "handler\n", 8) != 8)
        _exit(1);
}
int main(void) {
    on(SIGABRT, handler, 0);
    abort();
}
