/* Faults in threads, among other accesses to memory: the handler finds the arithmetic flags as the program's last comparison
 * has left them, and so does the program behind the instruction that it goes on with.
 *
 * test: 200
 * soak: 100000
 */
#include "threads.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { FLAGS = 0x8d5, BYTES = 4096 };
static long rounds;
static char *forbidden;
static _Thread_local unsigned long found;
static _Thread_local int faults;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    ENSURE((char *)info->si_addr >= forbidden && (char *)info->si_addr < forbidden + BYTES);
    found = (unsigned long)regs[REG_EFL] & FLAGS;
    faults++;
    /* The register that the faulting instruction takes its address from. */
    regs[REG_RDI] = regs[REG_RSI];
}

/* Compares `a` with `b`, then executes what is given, of which the last instruction faults; returns the flags behind it. */
#define TRY(name, between, faulting)                                                               \
    static unsigned long name(char *bad, char *good, long *data, long a, long b)                   \
    {                                                                                              \
        unsigned long behind;                                                                      \
        asm volatile("cmp %[b], %[a]\n\t" between "\n\t" faulting "\n\t"                           \
                     "pushfq\n\tpop %[behind]"                                                     \
                     : [behind] "=&r"(behind), "+D"(bad), "+S"(good), "+d"(data)                   \
                     : [a] "r"(a), [b] "r"(b)                                                      \
                     : "rax", "rcx", "r8", "xmm1", "memory", "cc");                                \
        return behind & FLAGS;                                                                     \
    }

TRY(load_alone, "", "mov (%%rdi), %%rcx")
TRY(load_behind_loads, "mov (%%rdx), %%rcx\n\tmov 8(%%rdx), %%r8", "mov (%%rdi), %%rcx")
TRY(load_behind_stores, "mov %%rcx, (%%rdx)\n\tmov %%r8, 128(%%rdx)", "mov (%%rdi), %%rcx")
TRY(load_of_odd_size, "mov 63(%%rdx), %%rcx\n\tmovb $1, (%%rdx)", "movzwl 5(%%rdi), %%ecx")
TRY(store_behind_loads, "mov (%%rdx), %%rcx\n\tmovzbl 77(%%rdx), %%r8d", "mov %%rcx, 64(%%rdi)")
TRY(store_behind_stores, "movq $5, 56(%%rdx)\n\tmovups %%xmm1, 60(%%rdx)", "movups %%xmm1, (%%rdi)")
TRY(vector_load, "movups 50(%%rdx), %%xmm1\n\tmov %%rcx, 8(%%rdx)", "movups 3(%%rdi), %%xmm1")
TRY(reads_flags, "mov (%%rdx), %%rcx\n\tsetc %%al\n\tmov 64(%%rdx), %%r8", "mov (%%rdi), %%rcx")

static unsigned long (*const tries[])(char *, char *, long *, long, long) = {
    load_alone,         load_behind_loads,   load_behind_stores, load_of_odd_size,
    store_behind_loads, store_behind_stores, vector_load,        reads_flags};

static unsigned long flags_of(long a, long b)
{
    unsigned long flags;
    asm volatile("cmp %[b], %[a]\n\tpushfq\n\tpop %[flags]" : [flags] "=r"(flags) : [a] "r"(a), [b] "r"(b) : "cc");
    return flags & FLAGS;
}

static void *run(void *number)
{
    long data[64] = {0};
    char good[256] = {0};
    static const long values[] = {0, 1, -1, INT64_MIN, INT64_MAX, 7};
    for (long round = 0; round < rounds; round++) {
        long a = values[(round + (long)number) % 6], b = values[round / 6 % 6];
        unsigned long flags = flags_of(a, b);
        for (size_t n = 0; n < sizeof tries / sizeof *tries; n++) {
            faults = 0;
            unsigned long behind = tries[n](forbidden, good, data, a, b);
            ENSURE(faults == 1 && found == flags && behind == flags);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 10);
    forbidden = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ENSURE(forbidden != MAP_FAILED);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    ENSURE(sigaction(SIGSEGV, &action, NULL) == 0);
    run_threads(3, run);
    puts("ok");
}
