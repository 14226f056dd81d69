// Lost update: two threads add to a counter without a lock.
#include "rare.h"

volatile int counter;

static void *count(void *unused)
{
    for (int i = 0; i < 20; i++) {
        work(50);
        counter = counter + 1;
    }
    return unused;
}

int main(void)
{
    run_two(count, count);
    assert(counter == 40);
    return 0;
}
