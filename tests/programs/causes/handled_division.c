// A handler takes the fault of a division, and exits.
// run: 3
// symptom: exit
// says: exit status 9
// says: in its handler of SIGFPE, which came first, at
// says: the divisor of
// among: 2
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void failed(int number) {
    _exit(9);
}
static int share(int all, int parts) {
    return all / parts;
}
int main(int argc, char **argv) {
    signal(SIGFPE, failed);
    int parts = atoi(argv[1]);
    int left = parts - 3; /* BUG */
    printf("%d\n", share(100, left));
}
