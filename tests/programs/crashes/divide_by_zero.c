// Divides by zero.
// info: SIGFPE
// info: div
#include "case.h"
int main(int argc, char **argv) {
    volatile int zero = argc - 1;
    return 7 / zero;
}
