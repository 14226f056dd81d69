/* Follows pointers through memory in random order: hardly an instruction beside the loads. Argument: turns. */
#include <stdio.h>
#include <stdlib.h>

#define NODES (1 << 20)

struct node {
    struct node *next;
    unsigned long payload[3];
};

int main(int argc, char **argv)
{
    long turns = argc > 1 ? atol(argv[1]) : 1;
    struct node *nodes = malloc(NODES * sizeof *nodes);
    unsigned *order = malloc(NODES * sizeof *order);
    if (!nodes || !order)
        return 2;
    unsigned long state = 88172645463325252ul;
    for (unsigned i = 0; i < NODES; i++)
        order[i] = i;
    for (unsigned i = NODES - 1; i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        unsigned j = state % (i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (unsigned i = 0; i < NODES; i++) {
        nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
        nodes[order[i]].payload[0] = i;
    }
    unsigned long sum = 0;
    struct node *at = nodes;
    for (long i = 0; i < turns * NODES; i++) {
        sum += at->payload[0];
        at = at->next;
    }
    printf("%lu\n", sum);
    return 0;
}
