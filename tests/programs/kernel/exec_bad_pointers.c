// execve that fails: pointers that lead nowhere, files that are not there.
// flags: -Wno-stringop-overread -Wno-nonnull
#include "case.h"
int main(void) {
    char *argv[] = {"x", NULL}, *bad[] = {(char *)8, NULL};
    EXPECT(execve((char *)8, argv, argv) == -1 && errno == EFAULT);
    EXPECT(execve("/bin/true", (char **)8, argv) == -1 && errno == EFAULT);
    EXPECT(execve("/bin/true", bad, argv) == -1 && errno == EFAULT);
    EXPECT(execve("/bin/true", argv, (char **)8) == -1 && errno == EFAULT);
    EXPECT(execve("/bin/true", argv, bad) == -1 && errno == EFAULT);
    EXPECT(execve("/nonexistent", argv, argv) == -1 && errno == ENOENT);
    EXPECT(execve("/etc/passwd", argv, argv) == -1 && errno == EACCES);
    EXPECT(execve("/tmp", argv, argv) == -1 && errno == EACCES);
    EXPECT(execve("", argv, argv) == -1 && errno == ENOENT);
    puts("done");
}
