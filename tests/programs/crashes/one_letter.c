// A crash in a function whose name is also that of a type (float) where C++ mangles names, after a fault that was handled.
// flags: -g0
// info: SIGSEGV writing 0x8 in f+0x0
// info: SIGSEGV handled, at instruction
// info: SIGALRM handled 3 times, first at instruction
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static sigjmp_buf back;
static void handler(int signal) { siglongjmp(back, signal); }
static void count(int signal) { (void)signal; }
__attribute__((noipa)) void f(volatile int *at) { *at = 3; }
int main(void) {
    signal(SIGALRM, count);
    for (int n = 0; n < 3; n++) raise(SIGALRM);
    signal(SIGSEGV, handler);
    if (sigsetjmp(back, 1) == 0) f((volatile int *)16);
    puts("handled");
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    f((volatile int *)8);
    return 0;
}
