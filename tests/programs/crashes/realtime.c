// A real-time signal without a handler.
// info: signal 4
#include "case.h"
int main(void) {
    union sigval v = {.sival_int = 1};
    sigqueue(getpid(), SIGRTMIN + 6, v);
    for (;;)
        work(10);
}
