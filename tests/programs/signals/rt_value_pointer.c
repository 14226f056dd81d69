// Real-time signals from a child with pointers as values, handled while the program computes.
#include "case.h"
static volatile uint64_t count, sum;
static void handler(int s, siginfo_t *i, void *c) { count++, sum += (uint64_t)i->si_value.sival_ptr; }
int main(void) {
    on(SIGRTMIN + 5, handler, 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (uint64_t n = 0; n < 100; n++) {
            union sigval v = {.sival_ptr = (void *)(n << 40)};
            while (sigqueue(parent, SIGRTMIN + 5, v) != 0)
                usleep(100);
        }
        _exit(0);
    }
    while (count < 100)
        work(50);
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    printf("%lx\n", sum >> 40);
}
