// Processes that signals kill at any moment of loops that make system calls, or execute what the recorder does for them.
#include "case.h"
#include <sys/resource.h>
static void loop(int kind) {
    static char from[4096], to[4096];
    for (;;) {
        void *source = from, *target = to;
        long count = 300;
        int two[2];
        switch (kind) {
        case 0:
            syscall(SYS_getppid);
            break;
        case 1:
            // REPNE, which means REP.
            asm volatile(".byte 0xf2, 0xa4" : "+S"(source), "+D"(target), "+c"(count)::"memory");
            break;
        case 2:
            asm volatile("rdtsc" ::: "rax", "rdx");
            break;
        default:
            EXPECT(pipe(two) == 0 && write(two[1], from, 4096) == 4096 && read(two[0], to, 4096) == 4096);
            close(two[0]);
            close(two[1]);
        }
    }
}
int main(void) {
    int killed = 0;
    for (int n = 0; n < 24; n++) {
        if (fork() == 0) {
            struct itimerval once = {{0, 0}, {0, 1000 + n * 285}};
            setitimer(n % 8 < 4 ? ITIMER_REAL : ITIMER_VIRTUAL, &once, NULL);
            loop(n % 4);
        }
        int status;
        wait(&status);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == (n % 8 < 4 ? SIGALRM : SIGVTALRM);
    }
    printf("%d\n", killed);
}
