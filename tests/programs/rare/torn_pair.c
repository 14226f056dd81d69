// Two fields that are to be the same are changed one after the other, and read in between.
#include "rare.h"

volatile struct {
    int low, high;
} range;
volatile int torn;

static void *change(void *unused)
{
    for (int i = 1; i <= 20; i++) {
        work(200);
        range.low = i;
        range.high = i;
    }
    return unused;
}

static void *check(void *unused)
{
    for (int i = 0; i < 20; i++) {
        work(200);
        int low = range.low, high = range.high;
        if (low > high)
            torn = 1;
    }
    return unused;
}

int main(void)
{
    run_two(change, check);
    assert(!torn);
    return 0;
}
