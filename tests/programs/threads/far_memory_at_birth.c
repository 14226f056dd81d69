/* A thread's very first instruction accesses memory whose shadow has no room where that of the thread is: an interval begins
 * and ends there.
 *
 * test: 6
 * soak: 200
 */
#include "threads.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PLACES = 2, BYTES = 1 << 14 };
static const uintptr_t UNIT = 1ul << 36;
static char *places[PLACES];
static atomic_int born;

static char *map(uintptr_t at, size_t bytes, int protection)
{
    int fixed = at != 0 ? MAP_FIXED_NOREPLACE : 0;
    char *got =
        mmap((void *)at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    return got == MAP_FAILED ? NULL : got;
}

static void *nothing(void *number)
{
    return number;
}

/* A thread that does nothing but access this and say so. */
static void bear(char *place)
{
    int before = atomic_load(&born);
    char *stack = map(0, BYTES, PROT_READ | PROT_WRITE);
    ENSURE(stack != NULL);
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    register char *r9 __asm__("r9") = place;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    long result = SYS_clone, rdi = flags, rsi = (long)(stack + BYTES - 64), rdx = 0;
    __asm__ volatile("syscall\n\t"
                     "movzbl (%%r9), %%ebx\n\t"
                     "mov $1, %%ecx\n\t"
                     "mov $2, %%edx\n\t"
                     "test %%eax, %%eax\n\t"
                     "jnz 1f\n\t"
                     "lock incl %[born]\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n"
                     "1:\n\t"
                     : "+a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "+r"(r8), "+r"(r9), "+r"(r10)
                     : [born] "m"(born), [exit] "i"(SYS_exit)
                     : "rbx", "rcx", "r11", "memory");
    ENSURE(result > 0);
    unsigned turns = 0;
    while (atomic_load(&born) == before)
        relax(&turns);
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1);
    /* Of what is far above, every other piece is taken. */
    for (uintptr_t unit = 513; unit < 1024; unit += 2)
        map(unit * UNIT, 2ul << 30, PROT_NONE);
    for (long round = 0; round < rounds; round++) {
        run_threads(4, nothing);
        for (uintptr_t n = 0; n < PLACES; n++) {
            places[n] = map((16 + n) * UNIT, BYTES, PROT_READ | PROT_WRITE);
            places[n] = places[n] ? places[n] : map(0, BYTES, PROT_READ | PROT_WRITE);
            ENSURE(places[n] != NULL);
            places[n][0] = (char)round;
        }
        for (int n = 0; n < PLACES; n++) {
            bear(places[n]);
            munmap(places[n], BYTES);
        }
    }
    puts("done");
}
