/* Recursion, a signal, and a jump out of nested calls. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static jmp_buf out;
static volatile int handled;
static int total;

static void handler(int number)
{
    handled += number;
}

static int factorial(int n)
{
    if (n < 2)
        return 1;
    int rest = factorial(n - 1);
    return n * rest;
}

static void leave(int value)
{
    longjmp(out, value);
}

int main(void)
{
    signal(SIGUSR1, handler);
    total = factorial(5);
    raise(SIGUSR1);
    total += handled;
    total += 2;
    if (setjmp(out) == 0)
        leave(7);
    total += 3;
    getppid();
    printf("%d\n", total);
    return 0;
}
