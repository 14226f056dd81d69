/* Reads a file again and again, each thread by itself, and looks at every byte: nearly all that it loads is new, so its log
 * is large. Arguments: the file, rounds, threads, and how many children the first thread forks on the way, which go on as it
 * does, but print nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 256 << 10 };

static const char *file;
static long rounds, children;

static void *read_all(void *number) {
    int fd = open(file, O_RDONLY);
    uint64_t *piece = malloc(PIECE);
    uint64_t sum = 0;
    long forked = 0;
    int is_child = 0;
    for (long round = 0; round < rounds; round++) {
        if (pread(fd, piece, PIECE, round % 8 * 4096) != PIECE)
            exit(1);
        for (int i = 0; i < PIECE / 8; i++)
            sum = sum * 31 + piece[i];
        if (number == NULL && !is_child && forked < children && round > rounds / (children + 1) * (forked + 1)) {
            forked++;
            is_child = fork() == 0;
        }
        if (number == NULL && !is_child && round % 16 == 0) {
            printf("%ld %" PRIx64 "\n", round, sum);
            fflush(stdout);
        }
    }
    if (is_child)
        _exit((int)(sum % 2));
    free(piece);
    close(fd);
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    file = argv[1];
    rounds = atol(argv[2]);
    children = atol(argv[4]);
    pthread_t threads[16];
    long others = atol(argv[3]) - 1;
    for (long i = 0; i < others; i++)
        pthread_create(&threads[i], NULL, read_all, (void *)(i + 1));
    uint64_t sum = (uint64_t)read_all(NULL);
    for (long i = 0; i < others; i++) {
        void *other;
        pthread_join(threads[i], &other);
        sum += (uint64_t)other;
    }
    for (int status; wait(&status) > 0;)
        sum += (uint64_t)status;
    printf("%" PRIx64 "\n", sum);
    return 0;
}
