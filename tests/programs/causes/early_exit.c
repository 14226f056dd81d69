// It exits with status 0 before it has written all.
// run: 10
// symptom: short
// says: wrong value: the last condition before the end, in count at
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
static int limit(int n) {
    return n * 2; /* BUG */
}
static void count(int n) {
    for (int i = 0; i < n; i++) {
        if (i > limit(3))
            exit(0);
        printf("%d\n", i);
    }
}
int main(int argc, char **argv) {
    count(atoi(argv[1]));
    return 0;
}
