// One thread opens files and closes numbers that nobody has, while another one starts threads, for each of which the recorder opens files.
// flags: -pthread
// intervals: no
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static atomic_int over;
static void *nothing(void *unused) { return unused; }
// What it opens has the lowest number that is free, and nobody else has the others.
static void *open_and_close(void *unused) {
    long wrong = 0;
    while (!over) {
        int first = open("/dev/null", O_RDONLY), second = dup(first);
        wrong += first != 3 || second != 4;
        close(second);
        wrong += close(second) != -1;
        close(first);
        for (int fd = 3; fd < 16; fd++)
            wrong += close(fd) != -1;
    }
    printf("%s\n", wrong ? "some numbers were others'" : "all numbers were its own");
    return unused;
}
int main(void) {
    pthread_t opens, thread;
    close_range(3, ~0U, 0);
    pthread_create(&opens, NULL, open_and_close, NULL);
    for (int n = 0; n < 200; n++) {
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
        close_range(64, ~0U, 0);
    }
    over = 1;
    pthread_join(opens, NULL);
    return 0;
}
