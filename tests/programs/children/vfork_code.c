/* Code that a child of vfork runs first, in its parent's memory, and that the parent runs later: functions of the program, of a
 * library, and such as was generated. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int seen;
#define PAGE __attribute__((noinline, aligned(4096)))
PAGE static int only_child_at_first(int x) { return x * 3 + seen; }
PAGE static int by_clone(int x) { return x * 5 + seen; }
PAGE static void end(void) { _exit(7); }
static int (*generated)(int);

static void generate(int constant) {
    unsigned char code[] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3}; /* lea eax, [rdi + constant]; ret */
    memcpy(code + 2, &constant, 4);
    memcpy((void *)generated, code, sizeof code);
}

static int child_of_clone(void *arg) {
    seen = by_clone(1) + strspn("aaab", "a");
    generate(300);
    seen += generated(1);
    return 9;
}

int main(void) {
    generated = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;
    setlinebuf(stdout);
    for (int n = 0; n < 3; n++) {
        pid_t child = vfork();
        if (child == 0) {
            seen = only_child_at_first(n);
            generate(100 + n);
            seen += generated(n);
            end();
        }
        waitpid(child, &status, 0);
        printf("%d %d\n", seen, WEXITSTATUS(status));
        if (n == 1) continue;
        printf("%d %d\n", only_child_at_first(n), generated(n));
    }
    static char stack[1 << 16];
    pid_t child = clone(child_of_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    waitpid(child, &status, 0);
    printf("%d %d\n", seen, WEXITSTATUS(status));
    printf("%d %d %zu\n", by_clone(2), generated(2), strspn("abab", "ab"));
    /* Where a child goes, its parent may go as well. */
    if (fork() == 0) end();
    wait(&status);
    printf("%d\n", WEXITSTATUS(status));
    end();
}
