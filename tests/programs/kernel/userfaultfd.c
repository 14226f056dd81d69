// Pages that another process fills in when they are touched first.
#include "missing_pages.h"
int main(void) {
    int fd;
    char *m = missing_pages(&fd);
    pid_t child = fork();
    if (child == 0) {
        char page[4096];
        for (int n = 0; n < PAGES; n++) {
            uint64_t address = next_fault(fd);
            memset(page, 'a' + n, sizeof page);
            fill(fd, address, page);
        }
        _exit(0);
    }
    unsigned sum = 0;
    for (int n = 0; n < PAGES; n++) {
        volatile char *at = m + n * 4096 + 100;
        EXPECT(*at == 'a' + n);
        sum += *at;
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    printf("%u\n", sum);
}
