/* A variable that has the name of one in the functions of libc in which the process ends. */

#include <stdlib.h>

struct node {
    struct node *next;
};

static struct node *list;

static void add(void) {
    struct node *node = malloc(sizeof *node);
    node->next = list;
    list = node; /* adds */
}

int main(void) {
    add();
    add();
    free(list);
    free(list);
    return 0;
}
