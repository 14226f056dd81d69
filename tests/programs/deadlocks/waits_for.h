/* Whether a thread waits for a mutex, as the kernel has it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The thread says which it is before it waits. */
static void wait_until_it_waits_for(atomic_int *thread, pthread_mutex_t *mutex)
{
    char path[64], text[256], expected[64];
    snprintf(expected, sizeof expected, "%d %p ", SYS_futex, (void *)mutex);
    for (;; usleep(1000)) {
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)*thread);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        char *line = fgets(text, sizeof text, file);
        fclose(file);
        if (line && strncmp(line, expected, strlen(expected)) == 0)
            return;
    }
}
