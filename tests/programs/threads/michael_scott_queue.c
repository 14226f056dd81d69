/* Michael and Scott's queue without locks; nodes are never freed.
 *
 * test: 3000
 * soak: 100000
 */
#include "threads.h"

struct node { _Atomic(struct node *) next; long value; };
static _Atomic(struct node *) head, tail;
static long rounds;
static atomic_long sum, taken;

static void put(long value)
{
    struct node *node = malloc(sizeof *node);
    node->value = value;
    atomic_store(&node->next, NULL);
    for (;;) {
        struct node *last = atomic_load(&tail), *next = atomic_load(&last->next);
        if (next) {
            atomic_compare_exchange_strong(&tail, &last, next);
        } else if (atomic_compare_exchange_strong(&last->next, &next, node)) {
            atomic_compare_exchange_strong(&tail, &last, node);
            return;
        }
    }
}

static int take(long *value)
{
    for (;;) {
        struct node *first = atomic_load(&head), *last = atomic_load(&tail), *next = atomic_load(&first->next);
        if (!next)
            return 0;
        if (first == last) {
            atomic_compare_exchange_strong(&tail, &last, next);
            continue;
        }
        *value = next->value;
        if (atomic_compare_exchange_strong(&head, &first, next))
            return 1;
    }
}

static void *run(void *number)
{
    unsigned turns = 0;
    long value;
    if ((long)number % 2 == 0) {
        for (long i = 1; i <= rounds; i++)
            put(i);
    } else {
        while (atomic_load(&taken) < 2 * rounds) {
            if (take(&value)) {
                atomic_fetch_add(&sum, value);
                atomic_fetch_add(&taken, 1);
            } else {
                relax(&turns);
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    struct node *first = calloc(1, sizeof *first);
    head = tail = first;
    run_threads(4, run);
    ENSURE(sum == rounds * (rounds + 1));
    printf("%ld\n", sum);
}
