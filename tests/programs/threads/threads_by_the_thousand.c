/* Thousands of threads at the same time, which read each other's stacks, and thousands one after the other, in batches. None takes
 * more than 2 MB.
 *
 * test: 60 200
 * soak: 1000 10000
 */
#include "threads.h"

enum { BATCH = 50 };

static long count, sum;
static long **places;
static pthread_barrier_t barrier;

/* What the status of the process says in a line, in kB. */
static long status(const char *name)
{
    char line[200];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    ENSURE(file != NULL);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    fclose(file);
    return value;
}

static void *live(void *number)
{
    long mine = 2 * (long)number + 1;
    places[(long)number] = &mine;
    int serial = pthread_barrier_wait(&barrier);
    if (serial == PTHREAD_BARRIER_SERIAL_THREAD) {
        ENSURE(status("Threads:") == count + 1);
        ENSURE(status("VmRSS:") < count * 2048 + 65536);
    }
    long other = *places[((long)number + count / 2) % count];
    __atomic_fetch_add(&sum, other, __ATOMIC_RELAXED);
    /* Nobody's stack goes before all have read. */
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *pass(void *number)
{
    __atomic_fetch_add(&sum, (long)number, __ATOMIC_RELAXED);
    return NULL;
}

int main(int argc, char **argv)
{
    count = argument(argc, argv, 1, 60);
    long sequence = argument(argc, argv, 2, 200);
    places = calloc((size_t)count, sizeof *places);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    if (count > 0)
        run_threads((int)count, live);
    for (long done = 0; done < sequence; done += BATCH)
        run_threads(BATCH, pass);
    printf("%ld\n", sum);
}
