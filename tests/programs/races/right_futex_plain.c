// A barrier whose rounds are counted in a word on which threads wait in the kernel. What reads and writes that word are plain instructions.
// flags: -D_GNU_SOURCE -O2
#include "races.h"
#include <linux/futex.h>
#include <sys/syscall.h>

int missing = 2, round_now;
int parts[2], sums[2];

static void barrier(void)
{
    int before = __atomic_load_n(&round_now, __ATOMIC_ACQUIRE);
    if (__atomic_sub_fetch(&missing, 1, __ATOMIC_ACQ_REL) == 0) {
        missing = 2;
        __atomic_store_n(&round_now, before + 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &round_now, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
        return;
    }
    while (__atomic_load_n(&round_now, __ATOMIC_ACQUIRE) == before)
        syscall(SYS_futex, &round_now, FUTEX_WAIT_PRIVATE, before, NULL, NULL, 0);
}

static void *work(void *number)
{
    int own = *(int *)number;
    for (int i = 0; i < 50; i++) {
        parts[own] = i;
        barrier();
        sums[own] += parts[1 - own];
        barrier();
    }
    return NULL;
}

int main(void)
{
    int numbers[2] = {0, 1};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return sums[0] != 1225 || sums[1] != 1225;
}
