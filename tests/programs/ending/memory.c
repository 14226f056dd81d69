// Memory of all kinds, of which the program writes out itself what it holds before it ends as it is told: pieces of an address, a
// length (8 bytes each), and so many bytes, into the file `pieces`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096 };

static unsigned char data[3 * PAGE] = {1, 2, 3}, bss[40 * PAGE];
static int out;

struct item {
    struct item *next;
    const char *name;
    int value;
};

static void fill(unsigned char *at, size_t len, uint64_t seed) {
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at[i] = seed >> 56;
    }
}

static void show(const void *at, size_t len) {
    uint64_t head[2] = {(uint64_t)at, len};
    struct iovec parts[2] = {{head, sizeof head}, {(void *)at, len}};
    if (writev(out, parts, 2) != (ssize_t)(sizeof head + len)) abort();
}

static void *map(size_t len, int flags, int file) {
    void *at = mmap(0, len, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

static atomic_int waiting;

// Waits in the kernel, with something on its stack.
static void *wait(void *seed) {
    unsigned char own[9000];
    fill(own, sizeof own, (uint64_t)seed);
    show(own, sizeof own);
    atomic_fetch_add(&waiting, 1);
    pause();
    return own;
}

// Time goes by: more than what is kept.
static void idle(void) {
    for (volatile uint64_t i = 0; i < 1000000; i++) {}
}

__attribute__((noinline)) static int end(const char *how, struct item *list, const char *text) {
    if (!strcmp(how, "exit")) return 7;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "raise")) raise(SIGTERM);
    if (!strcmp(how, "syscall")) syscall(SYS_exit, 3);
    volatile int *nothing = 0;
    return *nothing + list->value + text[0];
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    out = open("pieces", O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
    fill(data + PAGE, PAGE, 1);
    fill(bss + 7 * PAGE, 5, 2);
    struct item *list = malloc(sizeof *list);
    *list = (struct item){malloc(sizeof *list), strdup("long ago"), 4711};
    *list->next = (struct item){0, strdup("and longer"), 42};
    // Larger than what was touched.
    unsigned char *sparse = map(1 << 30, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    fill(sparse + 5 * PAGE + 17, 100, 3);
    fill(sparse + (700 << 20), 3 * PAGE, 4);
    sparse[9 * PAGE] = 1;
    sparse[9 * PAGE] = 0;
    // Memory that cannot be written to any more, and that cannot be read.
    unsigned char *constant = map(2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fill(constant, 2 * PAGE, 5);
    mprotect(constant, 2 * PAGE, PROT_READ);
    unsigned char *hidden = map(2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fill(hidden, 2 * PAGE, 6);
    mprotect(hidden, 2 * PAGE, PROT_NONE);
    // A private file, of which one page is changed, with pages beyond its end, and a shared one.
    static unsigned char contents[2 * PAGE + 100];
    fill(contents, sizeof contents, 7);
    int file = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (write(file, contents, sizeof contents) != sizeof contents) abort();
    unsigned char *of_file = map(5 * PAGE, MAP_PRIVATE, file);
    fill(of_file + PAGE, 10, 8);
    unsigned char *shared = map(4 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    fill(shared + PAGE, PAGE, 9);
    char *large = malloc(300000);
    fill((unsigned char *)large, 300000, 10);
    idle();
    for (long n = 0; n < threads; n++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, wait, (void *)(100 + n))) abort();
    }
    while (atomic_load(&waiting) < threads) usleep(1000);

    show(data, sizeof data);
    show(bss, sizeof bss);
    show(list, sizeof *list);
    show(list->next, sizeof *list);
    show(list->name, 9);
    show(sparse, 20 * PAGE);
    show(sparse + (700 << 20) - PAGE, 6 * PAGE);
    show(sparse + (1 << 30) - PAGE, PAGE);
    show(constant, 2 * PAGE);
    show(of_file + PAGE, PAGE);
    show(shared + PAGE, PAGE);
    show(large, 300000);
    show(contents, sizeof contents);
    close(out);
    idle();
    return end(how, list, list->name);
}
