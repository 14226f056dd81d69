// A thread that cannot be created; the program goes on and exits.
// flags: -pthread
#include "case.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
static void *run(void *p) { return p; }
int main(void) {
    // A combination of flags that the kernel refuses.
    long r = syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0, 0);
    EXPECT(r == -1 && errno == EINVAL);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 1ull << 46);
    pthread_t t;
    EXPECT(pthread_create(&t, &a, run, NULL) == EAGAIN);
    work(100000);
    puts("done");
}
