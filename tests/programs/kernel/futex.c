// Futexes between processes, robust lists, and a wait that times out.
#include "case.h"
#include <linux/futex.h>
int main(void) {
    volatile int *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    for (int n = 0; n < 200; n++) {
        int mine = child == 0;
        while (__atomic_load_n(m, __ATOMIC_SEQ_CST) % 2 != mine)
            syscall(SYS_futex, m, FUTEX_WAIT, 2 * n + !mine, NULL, NULL, 0);
        __atomic_add_fetch(m, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, m, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (child == 0)
        _exit(0);
    EXPECT(waitpid(child, NULL, 0) == child);
    struct timespec t = {0, 1000000};
    EXPECT(syscall(SYS_futex, m, FUTEX_WAIT, 400, &t, NULL, 0) == -1 && errno == ETIMEDOUT);
    printf("%d\n", *m);
}
