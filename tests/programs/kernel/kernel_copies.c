// sendfile, splice, tee, copy_file_range, vmsplice between files and pipes, and to standard output.
#include "case.h"
#include <sys/sendfile.h>
#include <sys/uio.h>
static void print_all(int in) {
    char buffer[100];
    long n;
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        EXPECT(write(1, buffer, n) == n);
}
int main(void) {
    char name[] = "copyXXXXXX", other[] = "copyXXXXXX";
    int a = mkstemp(name), b = mkstemp(other), p[2];
    unlink(name), unlink(other);
    EXPECT(write(a, "hello, kernel copies\n", 21) == 21 && pipe(p) == 0);
    off_t at = 0;
    EXPECT(sendfile(b, a, &at, 21) == 21 && at == 21);
    at = 0;
    loff_t to = 21;
    long copied = copy_file_range(a, &at, b, &to, 21, 0);
    EXPECT(copied == 21 || errno == EXDEV || errno == EINVAL);
    at = 7;
    EXPECT(splice(a, &at, p[1], NULL, 6, 0) == 6);
    char text[32] = {0};
    EXPECT(read(p[0], text, 32) == 6 && strcmp(text, "kernel") == 0);
    struct iovec v = {"spliced", 7};
    EXPECT(vmsplice(p[1], &v, 1, 0) == 7 && read(p[0], text, 32) == 7 && strcmp(text, "spliced") == 0);
    lseek(b, 0, SEEK_SET);
    // As cat does: in the kernel if it can be, else by hand.
    at = 0;
    EXPECT(ftruncate(b, 21) == 0);
    if (sendfile(1, b, &at, 21) != 21)
        print_all(b);
}
