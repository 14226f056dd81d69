// Descriptors used up, while the program goes on: with mappings and new code.
#include "../case.h"
#include <sys/socket.h>
int main(void) {
    int count = 0, last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd, count++;
    EXPECT(errno == EMFILE);
    EXPECT(count > 50 && last > 50);
    // New mappings, code in them, and protections, of which each is looked up.
    for (int i = 0; i < 50; i++) {
        unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(code != MAP_FAILED);
        memcpy(code, (unsigned char[]){0xb8, i, 0, 0, 0, 0xc3}, 6);
        EXPECT(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
        EXPECT(((int (*)(void))code)() == i);
        EXPECT(munmap(code, 4096) == 0);
    }
    EXPECT(socket(1, 1, 0) == -1 && errno == EMFILE && dup(0) == -1 && errno == EMFILE);
    printf("%lu\n", work(3000000));
    EXPECT(close(last) == 0 && open("/dev/null", O_RDONLY) == last);
    puts("done");
}
