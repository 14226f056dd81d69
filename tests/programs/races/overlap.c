// The halves of an array overlap by one element, which both threads set to the same.
// race: items
// benign: same-value
#include "races.h"

#define COUNT 64
short items[COUNT];

static void fill(int from, int until)
{
    for (int i = from; i < until; i++)
        items[i] = 1; /* RACE */
}

static void *lower(void *unused)
{
    fill(0, COUNT / 2 + 1);
    turn(0);
    return unused;
}

static void *upper(void *unused)
{
    wait_for(0);
    fill(COUNT / 2, COUNT);
    return unused;
}

int main(void)
{
    make_turns();
    run_two(lower, upper, NULL);
    return 0;
}
