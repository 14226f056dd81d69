/* Data races on purpose: increments get lost, in words of every size.
 *
 * test: 10000
 * soak: 500000
 */
#include "threads.h"

static long rounds;
static volatile uint8_t a;
static volatile uint16_t b;
static volatile uint32_t c;
static volatile uint64_t d;
static volatile double e;

static void *run(void *number)
{
    (void)number;
    for (long round = 0; round < rounds; round++) {
        a++;
        b += a;
        c -= b;
        d ^= c;
        e = e / 2 + (double)d;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(3, run);
    puts("ok");
}
