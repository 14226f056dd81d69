// glibc finds a double free and aborts with a message.
// info: SIGABRT
// flags: -Wno-use-after-free
#include "case.h"
int main(void) {
    void *volatile p = malloc(100);
    free(p);
    free(p);
}
