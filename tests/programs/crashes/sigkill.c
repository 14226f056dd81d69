// Kills itself with SIGKILL, which nobody can see coming.
#include "case.h"
int main(void) {
    puts("before");
    fflush(stdout);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
