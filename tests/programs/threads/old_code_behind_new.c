/* A thread executes code that another one changes, and nothing orders the two: once the threads are put in an order, the one
 * that has changed it, and has gone on to code that is newer still, may well come first.
 *
 * test: 20
 * soak: 2000
 */
#include "threads.h"
#include <sys/mman.h>

/* mov eax, 1; ret */
static const unsigned char one[] = {0xb8, 1, 0, 0, 0, 0xc3};
static unsigned char *old;
static volatile int ready;
static long pause_us;

static int call(unsigned char *code)
{
    return ((int (*)(void))code)();
}

static unsigned char *code(void)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ENSURE(page != MAP_FAILED);
    memcpy(page, one, sizeof one);
    return page;
}

static void *run(void *unused)
{
    (void)unused;
    while (!ready)
        ;
    while (call(old) == 1)
        ;
    return NULL;
}

static void *change(void *unused)
{
    (void)unused;
    usleep(10000);
    ready = 1;
    usleep(pause_us);
    ((volatile unsigned char *)old)[1] = 2;
    usleep(pause_us);
    ENSURE(call(code()) == 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pause_us = argument(argc, argv, 1, 20) * 1000;
    old = code();
    pthread_t runs, changes;
    ENSURE(pthread_create(&runs, NULL, run, NULL) == 0);
    ENSURE(pthread_create(&changes, NULL, change, NULL) == 0);
    ENSURE(pthread_join(runs, NULL) == 0);
    ENSURE(pthread_join(changes, NULL) == 0);
    printf("%d\n", call(old));
}
