// Optimised code: inlined functions, values in registers, parameters that are known from the call alone.
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noipa))

struct pair { long first, second; };
struct node { struct node *next; int value; };

volatile int sink;
double scale = 2.5;

static inline int square(int x)
{
    int result = x * x;
    sink = result;
    return result;
}

NOINLINE void die(int code, struct node *node, double factor)
{
    float single = factor * 2;
    sink = code + (int)single;
    if (node)
        __builtin_trap();
    sink = code;
}

static inline int walk(struct node *node, int depth)
{
    int sum = 0;
    for (struct node *at = node; at; at = at->next) {
        int here = square(at->value) + depth;
        sum += here;
        if (here > 90)
            die(here, at, scale);
    }
    return sum;
}

NOINLINE long by_value(struct pair pair, int unused, const char *name)
{
    struct node c = { NULL, 10 }, b = { &c, 2 }, a = { &b, 1 };
    long total = pair.first + pair.second;
    int constant = 17;
    total += walk(&a, constant);
    sink = name[0];
    return total;
}

int main(int argc, char **argv)
{
    struct pair pair = { argc + 1, argc + 2 };
    int unused = argc * 3;
    return by_value(pair, unused, argv[0]) > 0;
}
