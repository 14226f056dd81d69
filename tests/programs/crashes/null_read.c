// Reads through a null pointer.
// info: SIGSEGV
// info: 0x8
#include "case.h"
struct node { long value; struct node *next; };
static __attribute__((noinline)) long follow(struct node *n) { return *(volatile long *)&n->next; }
int main(void) {
    printf("before\n");
    fflush(stdout);
    return follow(NULL);
}
