// Runs for some seconds, so that epochs begin, in all that has a place of its own where one does: threads that compute, wait, sleep and come and go, with vector
// registers and thread-local memory; forks; memory of all kinds. It prints checked sums, and dies at the end where that is asked for.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long sum;
static int over;
static __thread long own = 7;
// Memory that forks share, which two threads count in all the time, beside their own.
static long *shared;
static volatile int alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// Keeps vector registers in use across what interrupts it.
static double computed(long *n) {
    double a = 1, b = 2, c = 3, d = 4;
    for (int i = 0; i < 100000; i++) {
        a = a * 1.0000001 + 1e-9;
        b = b * 0.9999999 + a;
        c += b * 1e-7;
        d = d * 0.5 + c;
        *n = *n * 31 + i;
    }
    return a + b + c + d;
}

static void *computes(void *number) {
    long n = 0, counted = 0;
    volatile long *count = shared + 8 * (1 + (long)number);
    double all = 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        all += computed(&n);
        for (int i = 0; i < 1000; i++)
            if (++*count != ++counted)
                abort();
        pthread_mutex_lock(&lock);
        sum += n & 7;
        own++;
        pthread_mutex_unlock(&lock);
    }
    return (void *)(own + (all > 0));
}

static void *waits(void *unused) {
    pthread_mutex_lock(&lock);
    while (!over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return (void *)own;
}

static void *talks(void *unused) {
    int ends[2];
    char text[4] = "";
    if (pipe(ends))
        return 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        usleep(3000);
        if (write(ends[1], "abc", 3) != 3 || read(ends[0], text, 3) != 3 || strcmp(text, "abc"))
            abort();
        char *block = malloc(100 + own % 5000);
        memset(block, (int)own, 100);
        own += block[99] == (char)own;
        free(block);
    }
    return (void *)own;
}

static void *ends(void *unused) {
    return (void *)own;
}

int main(int count, char **arguments) {
    double start = now(), seconds = atof(arguments[1]);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    ualarm(70000, 70000);
    // A file's memory that it changes, memory that forks share, memory that it cannot read, zeros.
    int file = open("/proc/self/exe", O_RDONLY);
    unsigned char *mapped = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *hidden = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *zeros = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[100] = 42;
    hidden[5] = 43;
    mprotect(hidden, 4096, PROT_NONE);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], 0, i < 2 ? computes : i < 4 ? waits : talks, (void *)(long)i);
    int rounds = 0;
    while (now() - start < seconds) {
        usleep(20000);
        pthread_t thread;
        void *result;
        pthread_create(&thread, 0, ends, 0);
        pthread_join(thread, &result);
        shared[0]++;
        zeros[rounds * 4096 % (1 << 20)] = 1;
        mprotect(hidden, 4096, PROT_READ);
        if (mapped[100] != 42 || mapped[1] != 'E' || hidden[5] != 43 || result != (void *)7 || shared[0] != ++rounds)
            abort();
        mprotect(hidden, 4096, PROT_NONE);
        pthread_mutex_lock(&lock);
        printf("%d %ld\n", rounds, sum);
        pthread_mutex_unlock(&lock);
        fflush(stdout);
    }
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], 0);
    printf("end %ld %d\n", sum, alarms > 0);
    fflush(stdout);
    if (count > 2) {
        volatile int *nowhere = 0;
        *nowhere = (int)sum;
    }
    return 0;
}
