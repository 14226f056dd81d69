/* Threads that compute and take a lock now and then, and some that mostly wait: in a pipe, a sleep, for a condition. What they share
 * was written long ago by some of them, and just now by others.
 * test: 60
 * soak: 3000
 */
#include "threads.h"
#include <unistd.h>

enum { WORDS = 4096, BUSY = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static unsigned words[WORDS];
static int rounds, working = BUSY, channel[2];
static volatile long sum;

static void *reader(void *unused)
{
    (void)unused;
    char c;
    while (read(channel[0], &c, 1) == 1) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < WORDS; i += 7)
            words[i] += (unsigned)c + words[WORDS - 1 - i];
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *sleeper(void *unused)
{
    (void)unused;
    for (;;) {
        usleep(3000);
        pthread_mutex_lock(&lock);
        int end = working == 0;
        words[1] += words[0];
        pthread_mutex_unlock(&lock);
        if (end)
            return NULL;
    }
}

static void *waiter(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (working > 0)
        pthread_cond_wait(&over, &lock);
    for (int i = 0; i < WORDS; i++)
        sum += words[i] & 1;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *busy(void *arg)
{
    volatile unsigned own = (unsigned)(size_t)arg;
    for (int round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 3000; i++)
            own = own * 31 + i;
        pthread_mutex_lock(&lock);
        for (int i = 0; i < WORDS; i += 3)
            words[i] = words[i] * 3 + own;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    working--;
    pthread_cond_broadcast(&over);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t idle[3], workers[BUSY];
    rounds = argc > 1 ? atoi(argv[1]) : 60;
    if (pipe(channel) != 0)
        return 1;
    pthread_create(&idle[0], NULL, reader, NULL);
    pthread_create(&idle[1], NULL, sleeper, NULL);
    pthread_create(&idle[2], NULL, waiter, NULL);
    for (size_t i = 0; i < BUSY; i++)
        pthread_create(&workers[i], NULL, busy, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        usleep(5000);
        if (write(channel[1], "abc", 1) != 1)
            return 1;
    }
    for (int i = 0; i < BUSY; i++)
        pthread_join(workers[i], NULL);
    close(channel[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(idle[i], NULL);
    puts(sum >= 0 ? "done" : "less than none is odd");
    return 0;
}
