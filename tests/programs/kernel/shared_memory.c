// Memory that another process writes all the time.
#include "case.h"
int main(void) {
    volatile uint64_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        for (uint64_t n = 1; !m[100]; n++)
            m[0] = n, m[1] = ~n, m[2] = n * 3;
        _exit(0);
    }
    while (!m[0])
        ;
    uint64_t changes = 0, last = 0;
    for (int n = 0; n < 30000; n++) {
        uint64_t a = m[0], b = m[1], c = m[2];
        changes += a != last;
        last = a;
        // Whatever was read, what follows from it is the same twice.
        uint64_t x = a ^ b ^ c, y = a ^ b ^ c;
        EXPECT(x == y);
        uint8_t byte = *(volatile uint8_t *)m;
        last += byte & 0;
    }
    m[100] = 1;
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT(changes > 0);
    puts("done");
}
