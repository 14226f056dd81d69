// Code that comes and goes: churn ROUNDS STEPS FILE
// In each round, pages of code are written, run and unmapped, the code in memory that is mapped twice is changed, and
// code that is writable changes itself; now and then a library is loaded and unloaded. Between, STEPS steps of plain work.
// The kilobytes of memory that the process has resident are written to FILE, 64 times.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t (*function)(uint64_t);
enum { PIECES = 60, AREA = 4096, TWICE = 16 * AREA };

static uint64_t random_state = 88172645463325252u;
static uint64_t next(void) {
    uint64_t x = random_state;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return random_state = x;
}

// A function of many blocks: mov rax, rdi; nop; jmp to the next; add rax, n; jmp to the next ... ret; and nothing that
// compresses behind it.
static void make(unsigned char *at) {
    memcpy(at, "\x48\x89\xf8\x90\x90\x90\xeb\x00", 8);
    for (int n = 1; n < PIECES; n++) {
        unsigned char *piece = at + 8 * n;
        memcpy(piece, "\x48\x05\x00\x00\x00\x00\xeb\x00", 8);
        uint16_t value = next();
        memcpy(piece + 2, &value, 2);
    }
    at[8 * PIECES] = 0xc3;
    for (int n = 512; n < AREA; n += 8) {
        uint64_t value = next();
        memcpy(at + n, &value, 8);
    }
}

static void *map(int protection, int flags, int fd, size_t size) {
    void *p = mmap(NULL, size, protection, flags, fd, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return p;
}

static uint64_t library(int which, uint64_t x) {
    void *l = dlopen(which ? "libm.so.6" : "libz.so.1", RTLD_NOW);
    if (!l)
        return x;
    x += dlsym(l, which ? "cos" : "crc32") != NULL;
    dlclose(l);
    return x;
}

static void sample(FILE *to) {
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    long kilobytes = -1;
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmRSS: %ld", &kilobytes);
    if (f)
        fclose(f);
    fprintf(to, "%ld\n", kilobytes);
    fflush(to);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    uint64_t rounds = strtoull(argv[1], NULL, 0), steps = strtoull(argv[2], NULL, 0), x = 1;
    FILE *to = fopen(argv[3], "w");
    int fd = memfd_create("code", 0);
    if (!to || fd < 0 || ftruncate(fd, TWICE))
        return 1;
    unsigned char *here = map(PROT_READ | PROT_WRITE, MAP_SHARED, fd, TWICE);
    unsigned char *there = map(PROT_READ | PROT_EXEC, MAP_SHARED, fd, TWICE);
    unsigned char *own = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, AREA);
    make(own);
    for (uint64_t round = 0; round < rounds; round++) {
        unsigned char *p = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, AREA);
        make(p);
        if (mprotect(p, AREA, PROT_READ | PROT_EXEC))
            return 1;
        x = ((function)p)(x);
        munmap(p, AREA);
        size_t at = round % 16 * AREA;
        make(here + at);
        x = ((function)(there + at))(x);
        if (round % 4 == 0) {
            own[8 * (1 + next() % (PIECES - 1)) + 2]++;
            x = ((function)own)(x);
        }
        if (round % 16 == 0)
            x = library(round / 16 % 2, x);
        for (uint64_t n = 0; n < steps; n++)
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if ((round + 1) % (rounds / 64) == 0)
            sample(to);
    }
    printf("%llx\n", (unsigned long long)x);
}
