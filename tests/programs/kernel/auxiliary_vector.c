// The stack that the program starts with: arguments, environment, auxiliary vector.
#include "case.h"
#include <sys/auxv.h>
extern char **environ;
int main(int argc, char **argv) {
    EXPECT(argc == 1 && argv[1] == NULL && (char **)environ == argv + 2);
    for (char **e = environ; *e; e++)
        printf("%s\n", *e);
    EXPECT(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_ENTRY) != 0 && getauxval(AT_PHDR) != 0);
    EXPECT(getauxval(AT_SECURE) == 0 && getauxval(AT_UID) == getuid());
    EXPECT(strstr((char *)getauxval(AT_EXECFN), "program") != NULL);
    EXPECT((getauxval(AT_HWCAP2) & 2) == 0 || getauxval(AT_HWCAP2) & 2);
    char exe[4096];
    long n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    EXPECT(n > 0);
    exe[n] = 0;
    printf("%s\n", strrchr(exe, '/'));
    int fd = open("/proc/self/cmdline", O_RDONLY);
    n = read(fd, exe, sizeof exe - 1);
    EXPECT(n == (long)strlen(argv[0]) + 1 && strcmp(exe, argv[0]) == 0);
    close(fd);
    fd = open("/proc/self/environ", O_RDONLY);
    n = read(fd, exe, sizeof exe - 1);
    EXPECT(n > 0 && memmem(exe, n, "BUGNET", 6) == NULL);
}
