// A signal's handler changes what the interrupted function has read and is about to write.
// torn: RWW pending
#include "races.h"

volatile int pending = 4;

static void handler(int signal)
{
    pending = signal; /* TORN */
}

int main(void)
{
    signal(SIGUSR1, handler);
    int now = pending; /* TORN */
    raise(SIGUSR1);
    pending = now - 1; /* TORN */
    return 0;
}
