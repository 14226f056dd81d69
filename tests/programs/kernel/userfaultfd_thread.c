// A thread fills in pages for another one, and needs for that what the other has just written.
// flags: -pthread
#include "missing_pages.h"
#include <pthread.h>
static int fd;
static struct {
    volatile long touched, served;
    char page[4096];
} all __attribute__((aligned(4096)));
static void *serve(void *unused) {
    for (int n = 0; n < PAGES; n++) {
        uint64_t address = next_fault(fd);
        all.served += all.touched;
        memset(all.page, 'a' + n, sizeof all.page);
        fill(fd, address, all.page);
    }
    return unused;
}
int main(void) {
    char *m = missing_pages(&fd);
    pthread_t server;
    EXPECT(pthread_create(&server, NULL, serve, NULL) == 0);
    long sum = 0;
    for (int n = 0; n < PAGES; n++) {
        all.touched = n;
        sum += ((volatile char *)m)[n * 4096 + 100];
    }
    EXPECT(pthread_join(server, NULL) == 0);
    printf("%ld %ld\n", sum, all.served);
}
