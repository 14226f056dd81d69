// Another process writes into this one's memory, and this one into a child's.
#include "case.h"
#include <sys/prctl.h>
#include <sys/uio.h>
static volatile uint64_t words[512];
int main(void) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    int p[2], back[2];
    EXPECT(pipe(p) == 0 && pipe(back) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        char c;
        uint64_t mine[512];
        for (int n = 0; n < 20; n++) {
            if (read(p[0], &c, 1) != 1)
                _exit(2);
            for (int k = 0; k < 512; k++)
                mine[k] = n * 1000 + k;
            struct iovec local = {mine, sizeof mine}, remote = {(void *)words, sizeof words};
            c = process_vm_writev(parent, &local, 1, &remote, 1, 0) == sizeof mine ? 'y' : 'n';
            if (write(back[1], &c, 1) != 1)
                _exit(3);
        }
        _exit(0);
    }
    uint64_t sum = 0;
    for (int n = 0; n < 20; n++) {
        char c = 'x';
        EXPECT(write(p[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
        if (c != 'y')
            skip("process_vm_writev is not allowed here");
        EXPECT(words[7] == n * 1000 + 7);
        for (int k = 0; k < 512; k++)
            sum += words[k];
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    uint64_t here[4] = {0};
    struct iovec local = {here, sizeof here}, remote = {(void *)words, sizeof here};
    EXPECT(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof here && here[1] == words[1]);
    printf("%lu\n", sum);
}
