// Makes many calls by libc's wrappers, so often that they no longer trap, then threads that make the same calls at the same time, some of which begin as others
// have ended. Exits with 1 where one of them gets what is another's.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 2500 };

static int wrong;

static void calls(int number, int rounds) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    int file = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < rounds; i++) {
        char bytes[16];
        struct stat status;
        memset(bytes, 1, sizeof bytes);
        if (read(file, bytes, 1 + number) != 1 + number || bytes[number] != 0 || bytes[number + 1] != 1)
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        if (stat(number % 2 ? "/" : "/none", &status) != (number % 2 ? 0 : -1))
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        lseek(file, 0, SEEK_CUR);
        access(path, F_OK);
    }
    close(file);
}

static void *other(void *number) {
    calls((int)(long)number, ROUNDS);
    return NULL;
}

int main(void) {
    calls(3, 200);
    for (int times = 0; times < 2; times++) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, other, (void *)i);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    calls(3, 200);
    printf("%d\n", wrong);
    return wrong;
}
