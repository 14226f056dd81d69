// prctl: names, dumpability, and others.
#include "case.h"
#include <sys/prctl.h>
int main(void) {
    char name[17] = {0};
    EXPECT(prctl(PR_GET_NAME, name) == 0);
    printf("%s\n", name);
    EXPECT(prctl(PR_SET_NAME, "a new name") == 0 && prctl(PR_GET_NAME, name) == 0);
    printf("%s\n", name);
    int fd = open("/proc/self/comm", O_RDONLY);
    memset(name, 0, sizeof name);
    EXPECT(read(fd, name, 16) > 0);
    printf("%s", name);
    printf("%d\n", prctl(PR_GET_DUMPABLE));
    EXPECT(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
    EXPECT(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
    int s = 0;
    EXPECT(prctl(PR_GET_PDEATHSIG, &s) == 0 && s == SIGUSR1);
    printf("%d\n", prctl(PR_GET_SECCOMP));
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    EXPECT(prctl(PR_SET_TIMERSLACK, 1000) == 0 && prctl(PR_GET_TIMERSLACK) == 1000);
    EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    EXPECT(prctl(12345) == -1 && errno == EINVAL);
}
