// ud0, ud1, ud2, and opcodes without a meaning in 64-bit mode: all illegal, wherever they stand.
#include "case.h"
static sigjmp_buf out;
static void *where;
static void handler(int s, siginfo_t *i, void *c) {
    where = i->si_addr;
    siglongjmp(out, s);
}
int main(void) {
    on(SIGILL, handler, 0);
    on(SIGSEGV, handler, 0);
    static const unsigned char codes[][6] = {
        {0x0f, 0x0b}, {0x0f, 0xb9, 0xc0}, {0x0f, 0xff, 0xc0}, {0x06}, {0x0e}, {0x27}, {0x37}, {0x60}, {0x61}, {0x82, 0xc0, 0x01},
        {0xd4, 0x0a}, {0xd6}, {0xea, 0, 0, 0, 0}, {0x9a, 0, 0, 0, 0}, {0xce}, {0x0f, 0x04}, {0x0f, 0x0a}, {0x0f, 0x24, 0xc0},
        {0xc4, 0x00, 0x00, 0x00}, {0x62, 0x00, 0x00, 0x00, 0x00}, {0xfe, 0xf8}, {0xff, 0xf8}, {0x0f, 0xc7, 0xc8}, {0xf3, 0x0f, 0x36}};
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (volatile unsigned n = 0; n < sizeof codes / sizeof *codes; n++) {
        memset(page, 0x90, 64);
        memcpy(page + 16, codes[n], 6);
        page[40] = 0xc3;
        int s = sigsetjmp(out, 1);
        if (s == 0)
            ((void (*)(void))page)();
        printf("%02x %02x: %d %ld\n", codes[n][0], codes[n][1], s, s ? (char *)where - page : -1);
    }
}
