// Calls a null function pointer.
// info: SIGSEGV
#include "case.h"
static void (*volatile function)(void);
int main(void) {
    puts("before");
    fflush(stdout);
    function();
}
