// One thread frees what the other one uses.
// race: that malloc gave
#include "races.h"

static void *use(void *block)
{
    ((int *)block)[2] = 5; /* RACE */
    turn(0);
    return NULL;
}

static void *release(void *block)
{
    wait_for(0);
    free(block);
    return NULL;
}

int main(void)
{
    make_turns();
    run_two(use, release, calloc(1, 1) ? malloc(40) : NULL);
    return 0;
}
