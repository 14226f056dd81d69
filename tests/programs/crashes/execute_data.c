// Executes memory that is not executable.
// info: SIGSEGV
#include "case.h"
int main(void) {
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data[0] = 0xc3;
    ((void (*)(void))data)();
}
