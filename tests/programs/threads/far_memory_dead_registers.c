/* Memory that others have mapped, and whose shadow has no room where that of a thread is, is first accessed where most
 * registers are dead.
 *
 * test: 6
 * soak: 200
 */
#include "threads.h"
#include <sys/mman.h>

enum { COUNT = 4, PLACES = 2, BYTES = 1 << 14 };
static const uintptr_t UNIT = 1ul << 36;
static char *places[PLACES];
static atomic_long sum, ready, round_now;
static long rounds;

/* Loads, changes and stores, in one piece of code that overwrites other registers only then. */
static long access_all(char *from, char *to, long me)
{
    long value, other;
    __asm__ volatile("jmp 1f\n"
                     "1:\n\t"
                     "movzbl (%[from]), %k[value]\n\t"
                     "movzbl 8(%[to],%[me]), %k[other]\n\t"
                     "lea 1(%[value],%[other]), %[value]\n\t"
                     "movb %b[value], 64(%[to],%[me])\n\t"
                     "movdqu 32(%[from]), %%xmm1\n\t"
                     "mov $1, %%ecx\n\t"
                     "mov $2, %%edx\n\t"
                     "mov $3, %%ebx\n\t"
                     "mov $4, %%r8d\n\t"
                     "mov $5, %%r9d\n\t"
                     "mov $6, %%r12d\n\t"
                     : [value] "=&a"(value), [other] "=&r"(other)
                     : [from] "S"(from), [to] "D"(to), [me] "r"(me)
                     : "rcx", "rdx", "rbx", "r8", "r9", "r12", "xmm1", "memory");
    return value;
}

static char *map(uintptr_t at, size_t bytes, int protection)
{
    char *got = mmap((void *)at, bytes, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

static void *run(void *number)
{
    long me = (long)number, total = 0;
    unsigned turns = 0;
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&round_now) == 0)
        relax(&turns);
    for (long n = 0; n < PLACES; n++)
        for (long i = 0; i < 100; i++)
            total += access_all(places[n] + i * 8, places[n], me);
    atomic_fetch_add(&sum, total);
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1);
    /* Of what is far above, every other piece is taken. */
    for (uintptr_t unit = 513; unit < 1024; unit += 2)
        map(unit * UNIT, 2ul << 30, PROT_NONE);
    for (long round = 1; round <= rounds; round++) {
        pthread_t threads[COUNT];
        atomic_store(&round_now, 0);
        atomic_store(&ready, 0);
        for (long i = 0; i < COUNT; i++)
            ENSURE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
        unsigned turns = 0;
        while (atomic_load(&ready) < COUNT)
            relax(&turns);
        for (uintptr_t n = 0; n < PLACES; n++)
            if ((places[n] = map((16 + n) * UNIT, BYTES, PROT_READ | PROT_WRITE)) == NULL)
                ENSURE((places[n] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
        atomic_store(&round_now, round);
        for (int i = 0; i < COUNT; i++)
            ENSURE(pthread_join(threads[i], NULL) == 0);
        for (int n = 0; n < PLACES; n++)
            munmap(places[n], BYTES);
    }
    printf("%s\n", sum > 0 ? "done" : "nothing");
}
