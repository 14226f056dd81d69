// As a just-in-time compiler that throws its code away: so many pieces of code that the cache of translated code has them in
// several areas, all of them run, then all of them made anew, of other sizes. Between them is memory that was never accessed.
#include "../case.h"

enum { PIECES = 4000, BYTES = 32, ROUNDS = 12, STEP = 64 };

static uint32_t state = 2463534242;

static uint32_t any(void) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

// add [rdi], esi ; add rdi, STEP ; some times inc esi ; then on to the next piece, or mov eax, esi ; ret
static void put(unsigned char *at, int last) {
    static const unsigned char begin[] = {0x01, 0x37, 0x48, 0x83, 0xc7, STEP};
    memcpy(at, begin, sizeof begin);
    unsigned char *end = at + sizeof begin;
    for (uint32_t times = any() % 10; times > 0; times--, end += 2)
        memcpy(end, "\xff\xc6", 2);
    int32_t way = (int32_t)(at + BYTES - (end + 5));
    *end = 0xe9;
    memcpy(end + 1, &way, 4);
    if (last)
        memcpy(end, "\x89\xf0\xc3", 3);
}

int main(void) {
    unsigned char *code =
        mmap(NULL, PIECES * BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *data = mmap(NULL, (size_t)ROUNDS * PIECES * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED && data != MAP_FAILED);
    uint32_t sum = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PIECES; i++)
            put(code + i * BYTES, i == PIECES - 1);
        uint32_t (*run)(char *, uint32_t) = (uint32_t (*)(char *, uint32_t))code;
        sum = sum * 31 + run(data + (size_t)round * PIECES * STEP, sum);
    }
    printf("%x\n", sum);
    return 0;
}
