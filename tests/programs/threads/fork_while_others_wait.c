/* One thread forks again and again while others wait in system calls, which must not be interrupted by that.
 *
 * test: 10
 * soak: 300
 */
#include "threads.h"
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>

enum { COUNT = 5 };
static atomic_long woken[COUNT];
static sem_t semaphore;

static void *run(void *number)
{
    struct epoll_event event;
    struct timespec long_time = { .tv_sec = 1000 };
    int set = epoll_create1(0);
    for (;;) {
        switch ((long)number) {
        case 0:
            pause();
            break;
        case 1:
            poll(NULL, 0, 1000000);
            break;
        case 2:
            sem_wait(&semaphore);
            break;
        case 3:
            epoll_wait(set, &event, 1, -1);
            break;
        default:
            nanosleep(&long_time, NULL);
        }
        atomic_fetch_add(&woken[(long)number], 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 10);
    sem_init(&semaphore, 0, 0);
    for (long i = 0; i < COUNT; i++) {
        pthread_t thread;
        ENSURE(pthread_create(&thread, NULL, run, (void *)i) == 0);
    }
    usleep(50000);
    for (long round = 0; round < rounds; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        ENSURE(waitpid(child, NULL, 0) == child);
    }
    usleep(20000);
    for (int i = 0; i < COUNT; i++)
        printf("%ld\n", (long)woken[i]);
}
