// A loop is generated, and patched again and again while a timer's signals interrupt it; the handler runs generated
// code as well, and patches the loop.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

static unsigned char *code;
static volatile sig_atomic_t ticks;

static void put(unsigned char *at, int value)
{
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

static void handler(int signo)
{
    (void)signo;
    ticks = ticks + 1;
    put(code + 2048, ticks);
    if (((int (*)(void))(code + 2048))() != ticks)
        _Exit(9);
    // The immediate of the loop's add: one byte.
    code[4] = (unsigned char)(1 + ticks % 100);
}

int main(void)
{
    code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // xor eax, eax; again: add eax, 1; dec edi; jne again; ret
    static const unsigned char loop[] = { 0x31, 0xc0, 0x83, 0xc0, 1, 0xff, 0xcf, 0x75, 0xf9, 0xc3 };
    memcpy(code, loop, sizeof loop);
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGALRM, &action, 0);
    struct itimerval interval = { { 0, 1000 }, { 0, 1000 } };
    setitimer(ITIMER_REAL, &interval, 0);
    unsigned long rounds = 0;
    while (ticks < 40) {
        code[4] = (unsigned char)(1 + rounds++ % 100);
        if (!((int (*)(int))code)(3000))
            return 1;
    }
    puts("patched");
    return 0;
}
