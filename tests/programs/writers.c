// Threads that write to standard output and error, which nothing but the kernel orders: how many, and how many lines each.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static long lines;

static void *write_lines(void *number) {
    char line[64];
    for (long n = 0; n < lines; n++) {
        int len = snprintf(line, sizeof line, "thread %ld line %ld\n", (long)number, n);
        struct iovec parts[] = {{line, 7}, {line + 7, len - 7}};
        int fd = n % 3 == 2 ? 2 : 1;
        if ((n % 2 ? writev(fd, parts, 2) : write(fd, line, len)) != len)
            abort();
    }
    return NULL;
}

int main(int argc, char **argv) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    long count = atol(argv[1]);
    lines = atol(argv[2]);
    for (long n = 0; n < count && n < MOST; n++)
        if (pthread_create(&threads[n], NULL, write_lines, (void *)n))
            abort();
    for (long n = 0; n < count && n < MOST; n++)
        pthread_join(threads[n], NULL);
    return 0;
}
