// A pointer is published before what it points at is filled in.
#include "rare.h"

struct node {
    const char *name;
};

struct node *volatile head;
volatile size_t length;

static void *publish(void *unused)
{
    work(3000);
    struct node *node = calloc(1, sizeof *node);
    head = node;
    __asm__ volatile("" ::: "memory");
    node->name = "first";
    return unused;
}

static void *look(void *unused)
{
    work(3000);
    for (int i = 0; i < 20; i++) {
        work(100);
        if (head)
            length = strlen(head->name);
    }
    return unused;
}

int main(void)
{
    run_two(publish, look);
    return 0;
}
