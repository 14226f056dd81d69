// Atomic instructions: a flag, a spinlock, a reference count, a list without locks.
#include "races.h"
#include <stdatomic.h>

struct node {
    struct node *next;
    int value;
};

atomic_int ready, spinlock;
int published, guarded;
_Atomic(struct node *) list;

static void push(int value)
{
    struct node *node = malloc(sizeof *node);
    node->value = value;
    node->next = atomic_load(&list);
    while (!atomic_compare_exchange_weak(&list, &node->next, node))
        ;
}

static void guard(void)
{
    while (atomic_exchange(&spinlock, 1))
        usleep(100);
    guarded++;
    atomic_store_explicit(&spinlock, 0, memory_order_release);
}

static void *first(void *unused)
{
    published = 7;
    atomic_store(&ready, 1);
    for (int i = 0; i < 20; i++) {
        push(i);
        guard();
    }
    return unused;
}

static void *second(void *unused)
{
    while (!atomic_load(&ready))
        usleep(100);
    int sum = published;
    for (int i = 0; i < 20; i++) {
        guard();
        for (struct node *node = atomic_exchange(&list, NULL), *next; node; node = next) {
            sum += node->value;
            next = node->next;
            free(node);
        }
    }
    return sum < 0 ? &guarded : unused;
}

int main(void)
{
    run_two(first, second, NULL);
    return guarded != 40;
}
