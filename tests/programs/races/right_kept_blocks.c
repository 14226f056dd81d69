// At the end of a thread, the C library gives the blocks that it kept for it back to itself, by the function that the program calls. Another
// thread may get some of them to keep without asking for them, and at its end, the same happens again.
// flags: -D_GNU_SOURCE
#include "races.h"

enum { BLOCKS = 6 };
_Atomic int first_thread;

static void use(int count)
{
    char *blocks[BLOCKS];
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(24);
        strcpy(blocks[i], "text");
    }
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

static void *first(void *unused)
{
    use(BLOCKS);
    first_thread = gettid();
    turn(0);
    return unused;
}

static void *second(void *unused)
{
    char task[40];
    wait_for(0);
    snprintf(task, sizeof task, "/proc/self/task/%d", first_thread);
    while (access(task, F_OK) == 0)
        usleep(1000);
    use(1);
    return unused;
}

int main(void)
{
    make_turns();
    run_two(first, second, NULL);
    return 0;
}
