// A flag that is atomic, without debug information: its loads and stores are plain ones, so that nobody can tell, and what it orders is not
// told from a race, either. The report says so.
// race: ready
// race: value
// benign: untold
// flags: -g0
#include "races.h"
#include <stdatomic.h>

_Atomic int ready;
int value;

static void *give(void *unused)
{
    value = 41;
    atomic_store_explicit(&ready, 1, memory_order_release);
    return unused;
}

static void *take(void *unused)
{
    while (!atomic_load_explicit(&ready, memory_order_acquire))
        usleep(10);
    value++;
    return unused;
}

int main(void)
{
    run_two(give, take, NULL);
    return value != 42;
}
