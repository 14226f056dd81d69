// A lock made of a futex and atomic instructions.
// flags: -D_GNU_SOURCE
#include "races.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

atomic_int word;
int guarded;

static void lock(void)
{
    int is_free = 0;
    if (atomic_compare_exchange_strong(&word, &is_free, 1))
        return;
    while (atomic_exchange(&word, 2))
        syscall(SYS_futex, &word, FUTEX_WAIT, 2, NULL, NULL, 0);
}

static void unlock(void)
{
    if (atomic_exchange(&word, 0) == 2)
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *work(void *unused)
{
    for (int i = 0; i < 50; i++) {
        lock();
        guarded++;
        unlock();
    }
    return unused;
}

int main(void)
{
    run_two(work, work, NULL);
    return guarded != 100;
}
