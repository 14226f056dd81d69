/* Code comes to where a thread has stored what is no instruction, by a system call. x87 exception flags are pending.
 *
 * test: 40
 * soak: 2000
 */
#include "threads.h"
#include <sys/mman.h>

enum { COUNT = 2, PAGE = 4096 };
/* mov eax, N ; ret */
static const unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
static atomic_long sum;
static long rounds;

static unsigned short status(void)
{
    unsigned short status;
    __asm__ volatile("fnstsw %0" : "=a"(status));
    return status & 0x3f;
}

static void *run(void *number)
{
    volatile long double one = 1, zero = 0, three = 3;
    long total = 0;
    int ends[2];
    ENSURE(pipe(ends) == 0);
    unsigned char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ENSURE(page != MAP_FAILED);
    for (long round = 0; round < rounds; round++) {
        unsigned char *at = page + round % 3 * 2040;
        ENSURE(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
        /* push es, which is no instruction any more */
        memset(page, 0x06, 2 * PAGE);
        unsigned char next[sizeof code];
        memcpy(next, code, sizeof code);
        next[1] = (unsigned char)round;
        ENSURE(write(ends[1], next, sizeof next) == sizeof next);
        ENSURE(read(ends[0], at, sizeof next) == sizeof next);
        ENSURE(mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC) == 0);
        __asm__ volatile("fnclex");
        long double quotient = one / (round % 2 ? zero : three);
        unsigned short before = status();
        total += ((int (*)(void))at)();
        ENSURE(status() == before);
        ENSURE(before == (round % 2 ? 0x04 : 0x20));
        total += quotient > 1;
    }
    close(ends[0]);
    close(ends[1]);
    atomic_fetch_add(&sum, total);
    return number;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 10);
    run_threads(COUNT, run);
    printf("%ld\n", (long)sum);
}
