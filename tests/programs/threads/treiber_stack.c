/* Treiber's stack: nodes go round, and a tag beside the top keeps a node that has come back from being taken for one
 * that never went away (ABA).
 *
 * test: 5000
 * soak: 200000
 */
#include "threads.h"

enum { NODES = 64 };
static struct { atomic_uint next; long owner; } nodes[NODES + 1];
/* Index of the top node in the low half, tag in the high. */
static atomic_ulong top;
static long rounds;

static void push(unsigned node)
{
    unsigned long old = atomic_load(&top), new;
    do {
        atomic_store_explicit(&nodes[node].next, (unsigned)old, memory_order_relaxed);
        new = ((old >> 32) + 1) << 32 | node;
    } while (!atomic_compare_exchange_weak(&top, &old, new));
}

static unsigned pop(void)
{
    unsigned long old = atomic_load(&top), new;
    do {
        if (!(unsigned)old)
            return 0;
        unsigned next = atomic_load_explicit(&nodes[(unsigned)old].next, memory_order_relaxed);
        new = ((old >> 32) + 1) << 32 | next;
    } while (!atomic_compare_exchange_weak(&top, &old, new));
    return (unsigned)old;
}

static void *run(void *number)
{
    unsigned turns = 0;
    for (long round = 0; round < rounds; round++) {
        unsigned a, b;
        while (!(a = pop()))
            relax(&turns);
        b = pop();
        nodes[a].owner = (long)number;
        if (b)
            push(b);
        ENSURE(nodes[a].owner == (long)number);
        push(a);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    for (unsigned i = 1; i <= NODES; i++)
        push(i);
    run_threads(3, run);
    int count = 0;
    char seen[NODES + 1] = { 0 };
    for (unsigned node; (node = pop()); count++) {
        ENSURE(!seen[node]);
        seen[node] = 1;
    }
    printf("%d\n", count);
}
