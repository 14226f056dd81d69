/* Where the heap begins is as hard to foresee as natively, and behind it there is nothing. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static int code;
static void on_fault(int signal, siginfo_t *info, void *context) {
    code = info->si_code;
    siglongjmp(back, 1);
}

static int faults(char *at) {
    code = 0;
    if (sigsetjmp(back, 1) == 0) *(volatile char *)at = 1;
    return code;
}

int main(int argc, char **argv) {
    /* Nothing else takes from the heap. */
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    if (argc > 1) {
        int out = atoi(argv[1]);
        uintptr_t start = (uintptr_t)sbrk(0);
        return write(out, &start, sizeof start) != sizeof start;
    }
    char *start = sbrk(0);
    if (brk(start + 100000) != 0) return 1;
    char *end = (char *)(((uintptr_t)start + 100000 + 4095) & ~4095ul);
    printf("%d %d %d\n", faults(end - 1), faults(end), faults(end + 200000));
    if (brk(start + 5000) != 0) return 1;
    printf("%d %d\n", faults(start + 4999), faults(start + 50000));
    for (int plain = 0; plain < 2; plain++) {
        uintptr_t places[12];
        int pipes[2], differ = 0;
        if (pipe(pipes) != 0) return 2;
        for (int n = 0; n < 12; n++) {
            if (fork() == 0) {
                char number[12];
                snprintf(number, sizeof number, "%d", pipes[1]);
                if (plain) personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE);
                execl("/proc/self/exe", argv[0], number, NULL);
                _exit(1);
            }
            if (read(pipes[0], &places[n], sizeof *places) != sizeof *places) return 3;
            wait(NULL);
            /* Beside the 2 MB to which a large mapping may be aligned. */
            differ += (places[n] ^ places[0]) % (2 << 20) != 0;
        }
        printf("%s: %s\n", plain ? "not randomised" : "randomised", differ ? "they differ" : "all the same");
    }
    return 0;
}
