// It crashes before its output is flushed: what is there of the output is right as far as it goes.
// run: 1
// symptom: crash
// says: SIGSEGV reading 0x0
// expected: begin
// expected: 2
// among: 2
#include <stdio.h>
int main(int argc, char **argv) {
    int *p = argc > 1 ? NULL : &argc; /* BUG */
    printf("begin\n");
    printf("%d\n", *p);
    return 0;
}
