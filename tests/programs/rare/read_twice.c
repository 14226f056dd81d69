// A number is checked and then read once more, and the other thread has set it to zero in between.
#include "rare.h"

volatile int items;
volatile int share;

static void *fill(void *unused)
{
    for (int i = 0; i < 20; i++) {
        work(100);
        items = 5;
        work(100);
        items = 0;
    }
    return unused;
}

static void *divide(void *unused)
{
    for (int i = 0; i < 20; i++) {
        work(150);
        if (items)
            share = 100 / items;
    }
    return unused;
}

int main(void)
{
    run_two(fill, divide);
    return 0;
}
