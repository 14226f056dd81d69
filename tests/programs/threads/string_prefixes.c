/* String instructions that the recorder executes itself (REPNE before movs, GS), on memory that threads share.
 *
 * test: 300
 * soak: 5000
 */
#include "threads.h"
#include <sys/syscall.h>

static long rounds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared[200], unlocked[100];

static void *run(void *number)
{
    uint64_t own[200] = {0};
    ENSURE(syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, shared) == 0);
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&lock);
        uint64_t at = 0, count = 200;
        void *to = own;
        __asm__ volatile(".byte 0x65, 0xf3, 0x48, 0xa5" : "+S"(at), "+D"(to), "+c"(count) : : "memory");
        for (int i = 0; i < 200; i++)
            own[i] += (uint64_t)i;
        void *from = own;
        to = shared;
        count = 200;
        __asm__ volatile(".byte 0xf2, 0x48, 0xa5" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
        pthread_mutex_unlock(&lock);
        /* Without a lock. */
        to = unlocked + round % 50;
        count = 20;
        __asm__ volatile(".byte 0xf2, 0x48, 0xab" : "+D"(to), "+c"(count) : "a"((uint64_t)number * 1000 + (uint64_t)round) : "memory");
        from = unlocked;
        uint64_t sum;
        count = 100;
        __asm__ volatile(".byte 0xf2, 0x48, 0xad" : "=a"(sum), "+S"(from), "+c"(count) : : "memory");
        ENSURE(sum < 3000 + (uint64_t)rounds);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 300);
    run_threads(3, run);
    for (int i = 0; i < 200; i++)
        ENSURE(shared[i] == (uint64_t)(3 * rounds * i));
    puts("whole");
    return 0;
}
