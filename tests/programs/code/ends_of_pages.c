// Code that changes at each place around the end of a page, in memory that is writable and executable, before there are threads
// and with them: instructions that end there, begin there, and lie across.
// flags: -pthread
#include "../case.h"
#include <pthread.h>

enum { PAGES = 16, AROUND = 20 };

static unsigned char *code;

// mov eax, value ; add eax, 1 ; ret
static int run(unsigned char *at, int value) {
    unsigned char bytes[] = {0xb8, 0, 0, 0, 0, 0x83, 0xc0, 1, 0xc3};
    memcpy(bytes + 1, &value, 4);
    memcpy(at, bytes, sizeof bytes);
    return ((int (*)(void))at)();
}

static void *go(void *unused) {
    uint32_t sum = 0;
    for (int i = 0; i < AROUND; i++) {
        for (int page = 1; page < PAGES; page++) {
            unsigned char *at = code + page * 4096 - AROUND + i;
            for (int value = 0; value < 3; value++)
                EXPECT(run(at, value * 256 + i) == value * 256 + i + 1);
            // A part of an instruction, byte by byte.
            for (int byte = 0; byte < 4; byte++) {
                at[1 + byte] ^= page;
                sum = sum * 31 + ((int (*)(void))at)();
            }
            // Nothing but the ret, which turns into a nop with another behind it.
            at[8] = 0x90;
            at[9] = 0xc3;
            sum = sum * 31 + ((int (*)(void))(at + 8 - i % 2 * 8))();
        }
    }
    printf("%x\n", sum);
    return unused;
}

int main(void) {
    code = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    go(NULL);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, go, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    // As one piece that only changes its protection.
    EXPECT(mprotect(code, PAGES * 4096, PROT_READ | PROT_EXEC) == 0);
    EXPECT(mprotect(code, PAGES * 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    go(NULL);
    return 0;
}
