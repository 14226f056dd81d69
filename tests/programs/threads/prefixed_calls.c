/* Calls with prefixes that do nothing, as of __tls_get_addr in libraries: each is longer than an assembler makes it, and what it pushes
 * tells. Right before it, threads read what others write, so that the call stands behind a record in its block.
 *
 * test: 2000
 * soak: 100000
 */
#include "threads.h"

enum { COUNT = 3 };
static long rounds;
static volatile long shared[COUNT];

__asm__(".text\n"
        "add_one:\n"
        "  lea 1(%rdi), %rax\n"
        "  ret\n"
        "call_it:\n"
        "  push %rbx\n"
        "  mov (%rsi), %rdi\n"
        "  mov %rdi, %rbx\n"
        "  .byte 0x66, 0x66, 0x48\n"
        "  call add_one\n"
        "  add %rbx, %rax\n"
        "  pop %rbx\n"
        "  ret\n");
long call_it(long ignored, volatile long *value);

static void *run(void *number)
{
    long n = (long)number, sum = 0;
    for (long round = 0; round < rounds; round++) {
        sum += call_it(0, &shared[(n + 1) % COUNT]);
        shared[n] = round;
    }
    return (void *)sum;
}

int main(int argc, char **argv)
{
    rounds = argument(argc, argv, 1, 1000);
    run_threads(COUNT, run);
    for (int i = 0; i < COUNT; i++)
        printf("%ld\n", shared[i]);
}
