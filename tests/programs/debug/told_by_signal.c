/* A signal with a handler, and then a fault at an address. */
#include <signal.h>

static void handler(int number) { (void)number; }

int main(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return *(volatile int *)0x2a24;
}
