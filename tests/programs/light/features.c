// Asks the processor what it has, by CPUID in its own code; executes UD2, which its own handler passes. With an argument, it makes a thread between two
// questions. Exits with 1 where it sees what is to be hidden, or where UD2 is no longer what it was.
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static int passed;

static void pass(int signal, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    passed += signal == SIGILL && info->si_addr == (void *)user->uc_mcontext.gregs[REG_RIP];
    user->uc_mcontext.gregs[REG_RIP] += 2;
}

static unsigned ask(void) {
    unsigned a, b, c, d;
    __cpuid(0, a, b, c, d);
    printf("%u %.4s%.4s%.4s\n", a, (char *)&b, (char *)&d, (char *)&c);
    __cpuid_count(7, 0, a, b, c, d);
    return b;
}

static void *other(void *unused) {
    ask();
    return unused;
}

int main(int arguments, char **argv) {
    (void)argv;
    struct sigaction action = {.sa_sigaction = pass, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    unsigned before = ask();
    __asm__ volatile("ud2");
    if (arguments > 1) {
        pthread_t thread;
        pthread_create(&thread, NULL, other, NULL);
        pthread_join(thread, NULL);
        ask();
        __asm__ volatile("ud2");
    }
    // Foundation of AVX-512, and RDSEED.
    int sees = (before >> 16 & 1) | (before >> 18 & 1);
    printf("UD2 %d\n", passed);
    return sees || passed != 1 + (arguments > 1);
}
