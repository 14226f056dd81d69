// Timers that count processor time, in loops of string instructions, calls and vectors.
#include "case.h"
static volatile unsigned ticks;
static char a[20000], b[20000];
static void tick(int s, siginfo_t *i, void *c) {
    ticks++;
    // A handler of its own that uses the vector registers.
    char buffer[64];
    memset(buffer, (int)ticks, sizeof buffer);
    EXPECT(buffer[63] == (char)ticks);
}
static unsigned recursive(unsigned n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }
int main(void) {
    on(SIGVTALRM, tick, 0);
    on(SIGPROF, tick, 0);
    struct itimerval t = {{0, 500}, {0, 500}};
    EXPECT(setitimer(ITIMER_VIRTUAL, &t, NULL) == 0);
    EXPECT(setitimer(ITIMER_PROF, &t, NULL) == 0);
    for (unsigned i = 0; ticks < 60; i++) {
        memset(a, i, sizeof a);
        void *to = b, *from = a;
        size_t n = sizeof a;
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
        EXPECT(memcmp(a, b, sizeof a) == 0);
        EXPECT(recursive(12) == 144);
    }
    memset(&t, 0, sizeof t);
    EXPECT(setitimer(ITIMER_VIRTUAL, &t, NULL) == 0 && setitimer(ITIMER_PROF, &t, NULL) == 0);
    puts("done");
}
