/* Variables that are in registers, in parts of several, in memory that a function inside stored them to, and nowhere. */
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

struct pair { long one, two; };

static volatile long seen;

NOINLINE static void leaves(void)
{
    seen++;
}

NOINLINE static void inner(void)
{
    seen += 2;
}

NOINLINE static void stores(void)
{
    __asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15");
    inner();
}

NOINLINE static long sum(const int *items)
{
    long constant = 7;
    long total = items[0] * seen + items[1] * seen; /* adds */
    leaves();
    stores();
    seen += constant;
    return total;
}

NOINLINE static double scaled(double by, struct pair pair)
{
    seen = pair.one - pair.two; /* takes a pair */
    return by * 3;
}

int main(void)
{
    static int items[] = { 4, 11 };
    seen = 3;
    long total = sum(items);
    struct pair pair = { total, seen }; /* makes a pair */
    seen = scaled(total, pair);
    abort();
}
