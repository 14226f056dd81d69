// What is written behind the pipe's byte races with whoever has read it; what came before does not.
// race: late
#include "races.h"

int ends[2], early, late;

static void *give(void *unused)
{
    early = 1;
    if (write(ends[1], "x", 1) != 1)
        abort();
    late = 1; /* RACE */
    return unused;
}

static void *take(void *unused)
{
    char x;
    if (read(ends[0], &x, 1) != 1)
        abort();
    early++;
    late += 2; /* RACE */
    return unused;
}

int main(void)
{
    if (pipe(ends))
        return 1;
    run_two(give, take, NULL);
    return early != 2;
}
