/* Threads that map memory all over the address space, which the others then use.
 *
 * test: 200
 * soak: 20000
 */
#include "threads.h"
#include <sys/mman.h>

enum { COUNT = 4, PLACES = 13, BYTES = 1 << 14 };
static _Atomic(char *) places[COUNT][PLACES];
static atomic_long sum, arrived;
static long rounds;

/* All over the address space, with room between them. */
static char *place(long n)
{
    return (char *)(uintptr_t)(0x118000000000 + n * 0x020000000000 + n * 0x130000);
}

static void *run(void *number)
{
    long me = (long)number, total = 0;
    for (long i = 0; i < PLACES; i++) {
        char *memory = mmap(place(i * COUNT + me), BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        /* Where something lies already, wherever there is room. */
        if (memory == MAP_FAILED)
            memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ENSURE(memory != MAP_FAILED);
        for (int at = 0; at < BYTES; at += 512)
            memory[at] = (char)(me + i);
        atomic_store(&places[me][i], memory);
    }
    meet(&arrived, COUNT, 0);
    for (long round = 0; round < rounds; round++)
        for (int who = 0; who < COUNT; who++)
            for (int i = 0; i < PLACES; i++)
                total += atomic_load(&places[who][i])[(round + me) % (BYTES / 512) * 512];
    atomic_fetch_add(&sum, total);
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 10);
    run_threads(COUNT, run);
    printf("%ld\n", (long)sum);
}
