// Data is published by a flag that is no atomic one.
// race: ready
// race: data
#include "races.h"

volatile int ready;
int data;

static void *writer(void *unused)
{
    data = 42; /* RACE */
    ready = 1; /* RACE */
    return unused;
}

static void *reader(void *unused)
{
    while (!ready) /* RACE */
        usleep(1000);
    return data == 42 ? unused : NULL; /* RACE */
}

int main(void)
{
    run_two(writer, reader, NULL);
    return 0;
}
