// Two threads count without a lock.
// race: counter
// flags: -O0
#include "races.h"

int counter;

static void *work(void *unused)
{
    for (int i = 0; i < 20; i++)
        counter++; /* RACE */
    return unused;
}

int main(void)
{
    run_two(work, work, NULL);
    return counter > 40;
}
