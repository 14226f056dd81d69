// abort().
// info: SIGABRT
#include "case.h"
int main(void) {
    puts("before");
    fflush(stdout);
    abort();
}
