// The limit of file sizes: the program meets it as natively, and gets SIGXFSZ for what it writes itself only.
#include "case.h"
#include <fcntl.h>
#include <sys/resource.h>
static volatile int signals;
static void handler(int signal) { signals++; (void)signal; }
int main(void) {
    const rlim_t most = 4 << 20;
    signal(SIGXFSZ, handler);
    EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, most}) == 0);
    char name[] = "file-size-XXXXXX";
    int fd = mkstemp(name);
    EXPECT(fd >= 0 && unlink(name) == 0);
    static char block[1 << 16];
    long written = 0, n;
    unsigned sum = 0;
    while ((n = write(fd, block, sizeof block)) > 0) {
        written += n;
        for (int i = 0; i < 200000; i++)
            sum = sum * 31 + block[(i * 7919 + sum) % sizeof block] + i;
    }
    EXPECT(n == -1 && errno == EFBIG && signals == 1);
    EXPECT(ftruncate(fd, most + 1) == -1 && errno == EFBIG && signals == 2);
    printf("%ld %u %d\n", written, sum, signals);
    return 0;
}
