// The program's descriptors are its own: numbers as natively, none closed behind its back, all of them usable.
#include "case.h"
#include <sys/resource.h>
#include <dirent.h>
int main(void) {
    closefrom(3);
    for (int n = 3; n < 200; n++)
        EXPECT(open("/dev/null", O_RDONLY) == n);
    EXPECT(dup2(3, 900) == 900 && fcntl(3, F_DUPFD, 1000) == 1000);
    for (int n = 1023; n > 2; n--)
        close(n);
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && atoi(e->d_name) < 512)
            count++;
    closedir(d);
    printf("%d\n", count);
    struct rlimit r;
    EXPECT(getrlimit(RLIMIT_NOFILE, &r) == 0);
    EXPECT(r.rlim_cur >= 256);
}
