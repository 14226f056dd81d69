/* A node of a list is overwritten long before the list is gone through. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    long value;
    struct node *next;
};

__attribute__((noinline)) static struct node *make(long value, struct node *next)
{
    struct node *node = malloc(sizeof *node);
    node->value = value;
    node->next = next;
    return node;
}

__attribute__((noinline)) static void overwrite(volatile char *at)
{
    for (unsigned i = 0; i < sizeof(struct node) / sizeof(long); i++)
        ((volatile long *)at)[i] = 0x4141414141414141;
}

__attribute__((noinline)) static long sum(struct node *node, struct node *volatile first, struct node *volatile victim)
{
    long sum = 0;
    for (; node; node = node->next)
        sum += node->value;
    return sum + (first == victim);
}

int main(void)
{
    struct node *list = NULL;
    for (long i = 0; i < 100; i++)
        list = make(i, list);
    overwrite((char *)list->next->next);
    /* Long before. */
    unsigned long spin = 1;
    for (int i = 0; i < 2000000; i++)
        spin = spin * 6364136223846793005 + 1442695040888963407;
    printf("%lu\n", spin);
    return (int)sum(list, list, list->next->next);
}
