// With threads, what the recorder keeps cannot make way for mappings at addresses of the program's choice.
// flags: -pthread
// message: refused with ENOMEM
#include "large.h"
#include <pthread.h>

enum { THREADS = 3, SIZE = 2 * 4096 };
static volatile int stop;
static uint64_t sums[THREADS];

static void *adds(void *number) {
    uint64_t *numbers = calloc(4096, sizeof *numbers), sum = 0;
    for (int round = 0; round < 20 || !stop; round++)
        for (int i = 0; i < 4096; i++)
            sum += numbers[i] += i * (uint64_t)number;
    sums[(uint64_t)number] = numbers[17] / 17;
    return sum != 0 ? numbers : NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, adds, (void *)i) == 0);
    char *places[MOST_PLACES];
    int count = large_mappings(places);
    for (int i = 0; i < count; i++) {
        int protection = i % 2 ? PROT_NONE : PROT_READ | PROT_WRITE;
        char *got = mmap(places[i], SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT(got == places[i] || (got == MAP_FAILED && errno == ENOMEM));
        if (got == MAP_FAILED) {
            EXPECT(munmap(places[i], SIZE) == -1 && mprotect(places[i], SIZE, PROT_NONE) == -1);
        } else if (protection != PROT_NONE) {
            memset(got, 3, SIZE);
            EXPECT(got[SIZE - 1] == 3 && got[0] == 3);
        }
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(sums[0] == 0 && sums[1] >= 20 && sums[2] >= 40 && sums[2] % 2 == 0);
    puts("done");
}
