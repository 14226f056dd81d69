/* A node that was freed is used again when its memory belongs to somebody else. */
#include <stdlib.h>

struct node {
    long values[3];
    struct node *next;
};

static struct node *list;

static void drop(struct node *node)
{
    free(node);
}

static long *take(void)
{
    long *numbers = malloc(sizeof(struct node));
    for (int i = 0; i < 4; i++)
        numbers[i] = 0x4242424242424242; /* CULPRIT */
    return numbers;
}

int main(void)
{
    list = calloc(1, sizeof *list);
    list->next = list;
    drop(list);
    long *numbers = take();
    return (int)(list->next->values[0] + numbers[0]);
}
