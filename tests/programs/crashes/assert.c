// A failed assertion.
// info: SIGABRT
#include "case.h"
#include <assert.h>
int main(int argc, char **argv) { assert(argc == 2); }
