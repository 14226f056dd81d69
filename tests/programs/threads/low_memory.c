/* Memory far below all other is mapped while threads run, and used by all of them.
 *
 * test: 3
 * soak: 50
 */
#include "threads.h"
#include <sys/mman.h>

enum { COUNT = 3, BYTES = 1 << 16 };
static atomic_long sum;
static _Atomic(char *) shared;
static atomic_int stop;
static volatile unsigned long own[COUNT];

static void *run(void *number)
{
    long me = (long)number;
    unsigned turns = 0;
    while (!atomic_load(&stop)) {
        char *memory = atomic_load(&shared);
        if (memory)
            memory[64 * me]++;
        own[me]++;
        atomic_fetch_add(&sum, 1);
        relax(&turns);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1);
    for (long round = 0; round < rounds; round++) {
        pthread_t threads[COUNT];
        atomic_store(&stop, 0);
        atomic_store(&shared, NULL);
        for (long i = 0; i < COUNT; i++)
            ENSURE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
        usleep(5000);
        char *memory =
            mmap((void *)0x200000, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        ENSURE(memory != MAP_FAILED);
        for (int i = 0; i < BYTES; i++)
            memory[i] = (char)i;
        atomic_store(&shared, memory);
        usleep(5000);
        atomic_store(&stop, 1);
        for (int i = 0; i < COUNT; i++)
            ENSURE(pthread_join(threads[i], NULL) == 0);
        munmap(memory, BYTES);
    }
    puts("done");
}
