/* Shared words that lie across cache lines and pages: loads and stores of them are not atomic, locked instructions are.
 *
 * test: 10000
 * soak: 200000
 */
#include "threads.h"

/* Each locks the bus, for which some virtual machines have to wait many milliseconds. */
#define SELDOM 4096

static long rounds;
static char memory[3 * 4096] __attribute__((aligned(4096)));
static atomic_int stop;

static void add(void *at, uint64_t value)
{
    __asm__ volatile("lock addq %1, (%0)" : : "r"(at), "r"(value) : "memory");
}

static void *run(void *number)
{
    volatile uint64_t *across_lines = (void *)(memory + 60), *across_pages = (void *)(memory + 4096 - 3);
    uint64_t seen = 0;
    for (long round = 0; round < rounds; round++) {
        if (round % SELDOM == 0)
            add(memory + 2 * 4096 + 61, 0x100000001);
        if ((long)number == 0) {
            *across_lines = round % 2 ? ~0ull : 0;
            *across_pages = round % 2 ? 0x1111111111111111 : 0x2222222222222222;
        } else {
            seen |= *across_lines ^ *across_pages;
        }
    }
    atomic_fetch_or(&stop, seen == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t sum;
    rounds = argument(argc, argv, 1, 1000);
    run_threads(3, run);
    memcpy(&sum, memory + 2 * 4096 + 61, sizeof sum);
    ENSURE(sum == 3 * (uint64_t)((rounds + SELDOM - 1) / SELDOM) * 0x100000001);
    puts("ok");
}
