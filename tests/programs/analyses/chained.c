// A sum over a list, each of whose items comes from an argument: what a slice of it leads to.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    struct item *next;
    int weight;
};

static struct item *push(struct item *list, const char *text)
{
    struct item *item = malloc(sizeof *item);
    item->next = list;
    item->weight = (int)strlen(text) + text[0]; /* </script><script>alert(2)</script> & "more" */
    return item;
}

static int sum(const struct item *list)
{
    int total = 0;
    for (; list; list = list->next)
        total += list->weight;
    return total;
}

static void report(int total)
{
    printf("%d\n", total);
}

int main(int argc, char **argv)
{
    struct item *list = NULL;
    for (int i = 1; i < argc; i++)
        list = push(list, argv[i]);
    report(sum(list));
    return 0;
}
