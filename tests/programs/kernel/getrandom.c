// Random bytes from the kernel.
#include "case.h"
#include <sys/auxv.h>
#include <sys/random.h>
int main(void) {
    unsigned char a[1000], b[1000];
    EXPECT(getrandom(a, sizeof a, 0) == sizeof a && getrandom(b, sizeof b, GRND_NONBLOCK) == sizeof b);
    EXPECT(memcmp(a, b, sizeof a) != 0);
    int fd = open("/dev/urandom", O_RDONLY), sum = 0;
    EXPECT(read(fd, b, sizeof b) == sizeof b);
    for (int n = 0; n < 1000; n++)
        sum += a[n] ^ b[n];
    EXPECT(sum > 1000);
    unsigned char *seed = (void *)getauxval(AT_RANDOM);
    EXPECT(seed != NULL && (seed[0] | seed[1] | seed[2] | seed[3]) != 0);
    EXPECT(getentropy(a, 256) == 0);
    puts("done");
}
