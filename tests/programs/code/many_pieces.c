// As a just-in-time compiler with threads does: many pieces of code in one large mapping, of which one after the other is
// changed while all are in use. What is not changed must not be translated anew each time: that would take minutes.
// flags: -pthread
// intervals: no
#include "../case.h"
#include <pthread.h>

enum { PIECES = 2048, BYTES = 512, ROUNDS = 4000 };

static int ends[2];

static void *wait_for_end(void *unused) {
    char byte;
    EXPECT(read(ends[0], &byte, 1) == 1);
    return unused;
}

// mov eax, value ; ret
static void put(unsigned char *at, int value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

int main(void) {
    pthread_t thread;
    EXPECT(pipe(ends) == 0 && pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
    unsigned char *code =
        mmap(NULL, PIECES * BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    for (int i = 0; i < PIECES; i++)
        put(code + i * BYTES, i);
    uint32_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int changed = round * 7919 % PIECES;
        put(code + changed * BYTES, round);
        for (int i = 0; i < PIECES; i++)
            sum = sum * 31 + ((int (*)(void))(code + i * BYTES))();
    }
    printf("%x\n", sum);
    EXPECT(write(ends[1], "", 1) == 1 && pthread_join(thread, NULL) == 0);
    return 0;
}
