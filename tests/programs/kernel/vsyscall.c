// The vsyscall page, which the kernel emulates.
// message: vsyscall page
#include "case.h"
static sigjmp_buf out;
static void handler(int s, siginfo_t *i, void *c) { siglongjmp(out, 1); }
int main(void) {
    on(SIGSEGV, handler, 0);
    if (sigsetjmp(out, 1)) {
        puts("done");
        return 0;
    }
    time_t (*vtime)(time_t *) = (void *)0xffffffffff600400;
    time_t a = time(NULL), b = vtime(NULL), c = time(NULL);
    EXPECT(a <= b + 1 && b <= c + 1);
    int (*vgettimeofday)(struct timeval *, void *) = (void *)0xffffffffff600000;
    struct timeval tv = {0};
    EXPECT(vgettimeofday(&tv, NULL) == 0 && tv.tv_sec >= a - 1);
    puts("done");
}
