// SIGXCPU and SIGABRT from outside reach loops of several kinds.
// intervals: no
#include "case.h"
#include <sys/resource.h>

static volatile sig_atomic_t caught;
static volatile int code;
static char from[1 << 16], to[1 << 16];

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    code = info->si_code;
    caught++;
}

static void loop(int kind)
{
    void *source = from, *target = to;
    long count = sizeof from;
    switch (kind) {
    case 0:
        break;
    case 1:
        asm volatile("rdtsc" : : : "rax", "rdx");
        break;
    default:
        asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    }
}

int main(void)
{
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO };
    sigaction(SIGABRT, &action, NULL);
    for (int kind = 0; kind < 3; kind++) {
        pid_t parent = getpid();
        caught = 0;
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            kill(parent, SIGABRT);
            _exit(0);
        }
        while (!caught)
            loop(kind);
        waitpid(child, NULL, 0);
        printf("%d: %d times, code %d\n", kind, caught, code);
    }
    fflush(stdout);
    for (int kind = 1; kind < 3; kind++) {
        pid_t child = fork();
        int status;
        if (child == 0) {
            struct rlimit limit = { 1, 3 };
            if (kind == 2)
                sigaction(SIGXCPU, &action, NULL);
            setrlimit(RLIMIT_CPU, &limit);
            caught = 0;
            while (!caught)
                loop(kind);
            _exit(code == SI_KERNEL ? 3 : 4);
        }
        waitpid(child, &status, 0);
        printf("%d: status %#x\n", kind, status & ~0x80);
    }
}
