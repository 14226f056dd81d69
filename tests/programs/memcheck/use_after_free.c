// Reads a field of a block that was given back.
// finds: read inside 8
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    long value;
};

static void drop(struct node *first) {
    free(first->next);
    free(first);
}

int main(int argc, char **argv) {
    (void)argv;
    struct node *node = malloc(sizeof *node);
    node->next = 0;
    node->value = argc;
    drop(node);
    volatile long *value = &node->value;
    return *value == 0x123456; /* HERE */
}
