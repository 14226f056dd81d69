/* The alignment check flag, set and taken back as by programs that want to know whether this is a 386, with other
 * instructions and changes of threads in between.
 *
 * test: 200
 * soak: 100000
 */
#include "threads.h"

static long rounds;
static atomic_long turn;

static void *run(void *number)
{
    for (long round = 0; round < rounds; round++) {
        unsigned turns = 0;
        while (atomic_load(&turn) % 2 != (long)number)
            relax(&turns);
        unsigned long before, after, count = 1;
        __asm__ volatile("pushfq\n\tmovq (%%rsp), %0\n\torq $0x40000, (%%rsp)\n\tpopfq\n\tlock xaddq %2, %3\n\tpushfq\n\tpopq %1\n\t"
                         "pushq %0\n\tpopfq"
                         : "=&r"(before), "=&r"(after), "+r"(count), "+m"(turn)
                         :
                         : "cc", "memory");
        ENSURE(before == (before & ~0x40000ul) && after & 0x40000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 200);
    run_threads(2, run);
    printf("%ld\n", (long)turn);
}
