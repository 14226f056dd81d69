// Instructions that are the kernel's alone: each is a SIGSEGV.
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, s); }
#define TRY(text) do { int s = sigsetjmp(out, 1); if (!s) asm volatile(text ::: "rax", "rcx", "rdx", "rbx", "memory"); printf("%s: %d\n", text, s); } while (0)
int main(void) {
    on(SIGSEGV, handler, 0);
    on(SIGILL, handler, 0);
    TRY("hlt");
    TRY("cli");
    TRY("sti");
    TRY("in $0x80, %%al");
    TRY("out %%al, $0x80");
    TRY("mov %%cr0, %%rax");
    TRY("mov %%rax, %%cr3");
    TRY("mov %%dr7, %%rax");
    TRY("invd");
    TRY("wbinvd");
    TRY("clts");
    TRY("rdmsr");
    TRY("wrmsr");
    TRY("lgdt (%%rsp)");
    TRY("lmsw %%ax");
    TRY("invlpg (%%rsp)");
    TRY("swapgs");
    TRY("sysretq");
    TRY("sysexit");
    TRY("int $0x81");
    TRY("insb");
    TRY("outsb");
    TRY("ltr %%ax");
    TRY("xsetbv");
    TRY("monitor");
}
