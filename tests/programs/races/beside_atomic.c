// race: plain
// Beside an operation on an atomic variable, in the same line, another variable is as plain as elsewhere.
#include "races.h"
#include <stdatomic.h>

atomic_int word;
int plain, seen;

static void *first(void *unused)
{
    atomic_store_explicit(&word, 1, memory_order_relaxed); plain = 7; /* RACE */
    turn(0);
    return unused;
}

static void *second(void *unused)
{
    wait_for(0);
    seen = plain; /* RACE */
    return unused;
}

int main(void)
{
    make_turns();
    run_two(first, second, NULL);
    return seen != 7;
}
