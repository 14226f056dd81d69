/* A thread reads a variable again and again, in calls that return before another thread writes to it, right before calls, and in the
 * same function as afterwards: only the last two may be torn pairs.
 *
 * test: 20000
 * soak: 500000
 */
#include "threads.h"

static long rounds;
static volatile int value;
static volatile long sum;
static volatile int asked, done;

static __attribute__((noinline)) int get(void)
{
    return value;
}

static __attribute__((noinline)) int get_by_another(void)
{
    return get() + 1;
}

static __attribute__((noinline)) void use(int what)
{
    sum += what;
}

/* The other thread writes meanwhile. Nothing that the program wants orders the two. */
static __attribute__((always_inline)) inline void let_write(void)
{
    int now = asked + 1;
    asked = now;
    while (done != now)
        sched_yield();
}

static __attribute__((noinline)) void in_calls(void)
{
    for (long round = 0; round < rounds; round++)
        sum += get();
    let_write();
    sum += value;
}

static __attribute__((noinline)) void in_calls_of_calls(void)
{
    for (long round = 0; round < rounds; round++)
        sum += get_by_another();
    let_write();
    sum += value;
}

static __attribute__((noinline)) void before_calls(void)
{
    for (long round = 0; round < rounds; round++)
        use(value);
    let_write();
    sum += value;
}

static __attribute__((noinline)) void here(void)
{
    for (long round = 0; round < rounds; round++)
        sum += value;
    let_write();
    sum += value;
}

static void *run(void *number)
{
    if (number) {
        for (int round = 1; round <= 4; round++) {
            while (asked != round)
                sched_yield();
            value = round;
            done = round;
        }
        return NULL;
    }
    in_calls();
    in_calls_of_calls();
    before_calls();
    here();
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(2, run);
    puts("ok");
}
