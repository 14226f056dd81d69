// An eventfd that counts, and one that is a semaphore and begins with nothing.
#include "races.h"
#include <sys/eventfd.h>

int counters[2], values[40], done;

static void *first(void *unused)
{
    eventfd_t count;
    for (int i = 0; i < 20; i++) {
        values[2 * i] = i;
        eventfd_write(counters[0], 1);
        eventfd_read(counters[1], &count);
        values[2 * i] += values[2 * i + 1];
    }
    return unused;
}

static void *second(void *unused)
{
    eventfd_t count;
    for (int i = 0; i < 20; i++) {
        eventfd_read(counters[0], &count);
        values[2 * i + 1] = values[2 * i] + 1;
        eventfd_write(counters[1], 1);
    }
    return unused;
}

int main(void)
{
    counters[0] = eventfd(0, EFD_CLOEXEC);
    counters[1] = eventfd(0, 0);
    run_two(first, second, NULL);
    return values[38] != 39;
}
