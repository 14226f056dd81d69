// Dies in the way that its argument names; each line that matters has a function of its own.
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))

struct list { struct list *next; long value; };

NOINLINE static long list_pop(struct list *list)
{
    return list->value; // reading
}

NOINLINE static void list_set(struct list *list)
{
    list->value = 3; // writing
}

NOINLINE static int divide(int a, int b)
{
    return a / b; // dividing
}

NOINLINE static void illegal(void)
{
    __asm__ volatile("ud2"); // illegal
}

NOINLINE static void trap(void)
{
    __asm__ volatile("int3"); // trapping
}

NOINLINE static long overflow(volatile long *before)
{
    volatile long here[64] = { *before };
    return overflow(here) + here[1]; // overflowing
}

NOINLINE static void give_up(void)
{
    abort(); // aborting
}

NOINLINE static void check(int x)
{
    assert(x == 3); // asserting
}

NOINLINE static void jump(void (*f)(void))
{
    f();
    __asm__ volatile("");
}

NOINLINE static void write_text(void)
{
    *(volatile char *)&illegal = 1; // protected
}

int main(int argc, char **argv)
{
    struct list *none = (struct list *)(argc > 5 ? argv : 0);
    const char *how = argv[1];
    if (!strcmp(how, "read")) return (int)list_pop(none);
    if (!strcmp(how, "write")) list_set(none);
    if (!strcmp(how, "wild")) return (int)list_pop((struct list *)0x1234567812345678);
    if (!strcmp(how, "divide")) return divide(argc, argc - 2);
    if (!strcmp(how, "quotient")) return divide(-2147483647 - 1, 1 - argc);
    if (!strcmp(how, "illegal")) illegal();
    if (!strcmp(how, "trap")) trap();
    if (!strcmp(how, "overflow")) { volatile long start[2] = { 0 }; return (int)overflow(start); }
    if (!strcmp(how, "abort")) give_up();
    if (!strcmp(how, "assert")) check(argc);
    if (!strcmp(how, "jump")) jump((void (*)(void))none);
    if (!strcmp(how, "text")) write_text();
    if (!strcmp(how, "kill")) kill(getpid(), SIGTERM);
    return 0;
}
