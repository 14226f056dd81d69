/* Prints its own memory at chosen moments: what is in the parts of a buffer that are written, read, filled by system calls, mapped anew and
   forgotten in turn. With an argument, in so many buffers, whose addresses differ in one bit or two. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 8, PAGE = 4096, SIZE = PAGES * PAGE };

static uint64_t state = 88172645463325252;

static uint64_t random_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static volatile uint64_t sum;

/* The kernel reads the memory, so that no instruction does: nothing becomes known by it. */
static void dump(const char *at)
{
    if (write(1, at, SIZE) != SIZE)
        abort();
}

static const uint64_t APART[] = {0, 1ULL << 32, 1ULL << 33, 3ULL << 32, 1ULL << 31};

int main(int argc, char **argv)
{
    int ends[2], buffers = argc > 1 ? atoi(argv[1]) : 0;
    if (pipe(ends))
        return 1;
    char *first = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *all[5] = {first};
    if (first == MAP_FAILED)
        return 1;
    for (int i = 0; i < buffers && i < 5; i++) {
        all[i] = mmap((char *)0x120000000000 + APART[i], SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (all[i] == MAP_FAILED)
            return 1;
    }
    for (int round = 0; round < 40; round++) {
        char *at = all[buffers ? round % buffers : 0];
        for (int step = 0; step < 60; step++) {
            uint64_t number = random_number();
            char *place = at + number % (SIZE - 512);
            size_t len = 1 + (number >> 32) % 300;
            switch ((number >> 48) % 8) {
            case 0:
                memset(place, (int)(number >> 56), len);
                break;
            case 1:
                *place = (char)(number >> 56);
                break;
            case 2:
                for (size_t i = 0; i < len; i++)
                    sum += (unsigned char)place[i];
                break;
            case 3:
                if (write(ends[1], &state, 8) != 8 || read(ends[0], place, 8) != 8)
                    return 1;
                break;
            case 4: {
                /* One byte of zero where a thread may have seen something else. */
                char zero = 0;
                if (write(ends[1], &zero, 1) != 1 || read(ends[0], place, 1) != 1)
                    return 1;
                break;
            }
            case 5:
                memmove(place, at + (number >> 20) % (SIZE - 512), len);
                break;
            case 6:
                if (step == 0)
                    madvise(at + (number >> 8) % PAGES * PAGE, PAGE, MADV_DONTNEED);
                break;
            case 7:
                if (step == 1)
                    mmap(at + (number >> 8) % PAGES * PAGE, PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                break;
            }
        }
        for (volatile int spin = 0; spin < 2000; spin++)
            ;
        for (int i = 0; i < 5 && all[i]; i++)
            dump(all[i]);
    }
    return 0;
}
