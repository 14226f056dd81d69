// It exits with a status before it writes anything.
// run: 7
// symptom: exit
// says: exit status 1
// expected: ok 7
// among: 2
#include <stdio.h>
#include <stdlib.h>
static int limit(int n) {
    return n * 2; /* BUG */
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    if (n > limit(2)) {
        fprintf(stderr, "too big\n");
        exit(1);
    }
    printf("ok %d\n", n);
    return 0;
}
