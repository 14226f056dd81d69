/* The process ends while other threads compute, sleep, wait for a lock and print nothing.
 *
 * status: 3
 * test: 1
 */
#include "threads.h"

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ready;
static volatile long shared;

static void *run(void *number)
{
    atomic_fetch_add(&ready, 1);
    switch ((long)number) {
    case 0:
        for (;;)
            if (++shared % 1000 == 0)
                usleep(1000);
    case 1:
        pause();
        break;
    case 2:
        pthread_mutex_lock(&held);
        break;
    default:
        while (shared < 1000)
            usleep(1000);
        puts("end");
        exit(3);
    }
    return NULL;
}

int main(void)
{
    pthread_mutex_lock(&held);
    run_threads(4, run);
}
