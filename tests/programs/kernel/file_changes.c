// A mapped file that is written through its descriptor, here and by a child.
#include "case.h"
int main(void) {
    char name[] = "mapXXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    EXPECT(ftruncate(fd, 65536) == 0);
    volatile char *shared = mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0);
    volatile char *private = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    private[0] = 'p';
    unsigned sum = 0;
    for (int n = 0; n < 200; n++) {
        char c = 'a' + n % 26;
        EXPECT(pwrite(fd, &c, 1, n * 300) == 1);
        EXPECT(shared[n * 300] == c);
        sum += shared[n * 300] + private[n * 300];
    }
    EXPECT(private[0] == 'p');
    pid_t child = fork();
    if (child == 0) {
        char text[4096];
        memset(text, 'z', sizeof text);
        _exit(pwrite(fd, text, sizeof text, 8192) != sizeof text);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT(shared[8192] == 'z' && shared[12287] == 'z');
    printf("%u\n", sum);
}
