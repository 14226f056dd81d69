// It returns before it has written all; a destructor follows, which decides something.
// run: 10
// symptom: short
// says: standard output ends after 14 bytes, where "7" is missing, though the exit status is 0
// says: wrong value: the last condition before the end, in main at
// expected: 0
// expected: 1
// expected: 2
// expected: 3
// expected: 4
// expected: 5
// expected: 6
// expected: 7
// among: 3
#include <stdio.h>
#include <stdlib.h>
static int written;
static int limit(int n) {
    return n * 2; /* BUG */
}
__attribute__((destructor)) static void report(void) {
    if (written < 3)
        fputs("little\n", stderr);
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    for (int i = 0; i < n; i++) {
        if (i > limit(3))
            return 0;
        printf("%d\n", i);
        written++;
    }
    return 0;
}
