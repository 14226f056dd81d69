/* A thread executes what another one has just changed, while nothing orders the two; data beside the code, which change
 * with it, are none of its business.
 *
 * test: 1000
 * soak: 100000
 */
#include "threads.h"
#include <sys/mman.h>

static struct {
    unsigned char code[64];
    volatile long changes;
    volatile long kept;
} *page;

static int call(void)
{
    return ((int (*)(void))page->code)();
}

/* Spins on the code alone. */
static void *run(void *unused)
{
    (void)unused;
    while (call() == 1)
        ;
    return NULL;
}

static void *change(void *times)
{
    usleep(20000);
    for (long n = 0; n < (long)times; n++) {
        page->changes = page->changes + 1;
        page->kept = page->kept ^ n;
    }
    /* mov eax, 2 */
    *(volatile unsigned char *)(page->code + 1) = 2;
    return NULL;
}

int main(int argc, char **argv)
{
    static const unsigned char one[] = {0xb8, 1, 0, 0, 0, 0xc3};
    long times = argument(argc, argv, 1, 1000);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ENSURE(page != MAP_FAILED);
    memcpy(page->code, one, sizeof one);
    page->changes = 1;
    page->kept = 1;
    pthread_t runs, changes;
    ENSURE(pthread_create(&runs, NULL, run, NULL) == 0);
    ENSURE(pthread_create(&changes, NULL, change, (void *)times) == 0);
    ENSURE(pthread_join(runs, NULL) == 0);
    ENSURE(pthread_join(changes, NULL) == 0);
    printf("%d %ld %ld\n", call(), page->changes, page->kept);
}
