// An object is made when it is first needed, and both threads may be the first.
// race: instance
#include "races.h"

int *instance;

static void *get(void *unused)
{
    if (!instance) { /* RACE */
        int *made = malloc(sizeof *made);
        instance = made; /* RACE */
    }
    return unused;
}

static void *first(void *unused)
{
    get(unused);
    turn(0);
    return unused;
}

static void *second(void *unused)
{
    wait_for(0);
    return get(unused);
}

int main(void)
{
    make_turns();
    run_two(first, second, NULL);
    return 0;
}
