// The limits of memory, RLIMIT_AS and RLIMIT_DATA: shown, met, raised again, and passed on as natively; what is the recorder's does not count.
#include "case.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#define MB (1UL << 20)
static void *map(size_t len, int protection, int flags) { return mmap(NULL, len, protection, flags | MAP_ANONYMOUS, -1, 0); }
static void set(int what, rlim_t soft) {
    struct rlimit limit;
    EXPECT(getrlimit(what, &limit) == 0);
    limit.rlim_cur = soft;
    EXPECT(setrlimit(what, &limit) == 0 && prlimit(0, what, NULL, &limit) == 0 && limit.rlim_cur == soft);
}
// How many megabytes there are to be had, each a mapping of its own.
static int count(int protection, int flags) {
    void *all[1000];
    int n = 0;
    while (n < 1000 && (all[n] = map(MB, protection, flags)) != MAP_FAILED)
        n++;
    EXPECT(n == 1000 || errno == ENOMEM);
    for (int i = 0; i < n; i++)
        munmap(all[i], MB);
    return n;
}
static const char *near(int n, int wanted) { return n > wanted - 12 && n <= wanted ? "as many as expected" : "wrong"; }
int main(int argc, char **argv) {
    if (argc > 1) {
        struct rlimit limit;
        getrlimit(RLIMIT_AS, &limit);
        printf("%s: %lu %s\n", argv[1], limit.rlim_cur / MB, near(count(PROT_READ, MAP_PRIVATE), 200));
        return 0;
    }
    set(RLIMIT_AS, 300 * MB);
    for (int i = 0; i < 3; i++)
        printf("mmap: %s\n", near(count(i ? PROT_READ | PROT_WRITE : PROT_NONE, i == 2 ? MAP_SHARED : MAP_PRIVATE), 300));
    EXPECT(map(400 * MB, PROT_NONE, MAP_PRIVATE) == MAP_FAILED && errno == ENOMEM);
    char *some = map(100 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    EXPECT(some != MAP_FAILED);
    some[99 * MB] = 1;
    EXPECT(mremap(some, 100 * MB, 320 * MB, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    // What is replaced does not count.
    EXPECT(mmap(some, 100 * MB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == some);
    printf("beside 100: %s\n", near(count(PROT_READ, MAP_PRIVATE), 200));
    munmap(some, 100 * MB);
    set(RLIMIT_AS, 30 * MB);
    char *begin = sbrk(0);
    while (sbrk(MB) != (void *)-1)
        ;
    EXPECT(errno == ENOMEM);
    printf("brk: %s\n", near(((char *)sbrk(0) - begin) / MB, 30));
    EXPECT(brk(begin) == 0);
    set(RLIMIT_AS, 300 * MB);
    pid_t child = fork();
    if (child == 0)
        _exit(*near(count(PROT_READ, MAP_PRIVATE), 300) == 'a');
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 1);
    set(RLIMIT_AS, RLIM_INFINITY);
    EXPECT(count(PROT_NONE, MAP_PRIVATE) == 1000);
    set(RLIMIT_DATA, 100 * MB);
    printf("data: %s\n", near(count(PROT_READ | PROT_WRITE, MAP_PRIVATE), 100));
    EXPECT(count(PROT_READ, MAP_PRIVATE) == 1000 && count(PROT_READ | PROT_WRITE, MAP_SHARED) == 1000);
    set(RLIMIT_DATA, RLIM_INFINITY);
    set(RLIMIT_AS, 200 * MB);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "executed", NULL);
    return 1;
}
