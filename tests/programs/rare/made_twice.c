// An object that is to be made once is made twice, where both threads find that it is not there yet.
#include "rare.h"

int object;
int *volatile instance;
int made;

static void *get(void *unused)
{
    work(2000);
    if (!instance) {
        __atomic_fetch_add(&made, 1, __ATOMIC_SEQ_CST);
        object = 7;
        instance = &object;
    }
    return unused;
}

int main(void)
{
    run_two(get, get);
    assert(made == 1);
    return 0;
}
