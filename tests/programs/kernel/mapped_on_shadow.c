// Whatever a program does where the recorder keeps what it knows of its memory, it finds nothing there.
#include "large.h"

enum { SIZE = 3 * 4096 };

static void is_nothing(char *at) {
    EXPECT(mprotect(at, SIZE, PROT_NONE) == -1 && errno == ENOMEM);
    EXPECT(munmap(at, SIZE) == 0);
    EXPECT(madvise(at, SIZE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    EXPECT(mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    EXPECT(mlock(at, SIZE) == -1 && errno == ENOMEM);
}

static void is_free(char *at, int protection) {
    char *got = mmap(at, SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    EXPECT(got == at);
    EXPECT(protection != PROT_NONE || mprotect(at, SIZE, PROT_READ | PROT_WRITE) == 0);
    for (int i = 0; i < SIZE; i += 64)
        EXPECT(at[i] == 0);
    memset(at, 9, SIZE);
    EXPECT(at[SIZE - 1] == 9);
}

static void can_be_moved_to(char *at) {
    char *from = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(from != MAP_FAILED);
    memset(from, 5, SIZE);
    EXPECT(mremap(from, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    EXPECT(at[0] == 5 && at[SIZE - 1] == 5);
}

int main(void) {
    // What was in memory before must be the same behind it all.
    enum { WORDS = 1 << 16 };
    uint64_t *before = malloc(WORDS * sizeof *before), sum = 0;
    for (int i = 0; i < WORDS; i++)
        before[i] = work(1) * i;
    for (int round = 0; round < 8; round++) {
        char *places[MOST_PLACES];
        int count = large_mappings(places);
        for (int i = 0; i < count; i++) {
            switch ((round + i) % 4) {
            case 0: is_nothing(places[i]); break;
            case 1: is_free(places[i], PROT_READ | PROT_WRITE); break;
            case 2: is_free(places[i], PROT_NONE); break;
            case 3: can_be_moved_to(places[i]); break;
            }
            // What lies there from now on is the program's own.
            if ((round + i) % 4 != 0 && round % 2 == 0)
                EXPECT(munmap(places[i], SIZE) == 0);
            count = (round + i) % 4 == 0 ? count : 0;
        }
        for (int i = 0; i < WORDS; i++)
            sum += before[i]++;
    }
    printf("%lu\n", sum);
}
