// Loses blocks in all ways.
// finds: nothing
// flags: -fno-builtin
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    char text[100];
};

static struct node *volatile kept;
static char *volatile inside;

#define APART __attribute__((noipa))

APART static void *definite(size_t size) { return malloc(size); }
APART static void *indirect(size_t size) { return malloc(size); }
APART static void *possible(size_t size) { return malloc(size); }
APART static void *reachable(size_t size) { return malloc(size); }

APART static void lose(void) {
    struct node *first = definite(sizeof *first);
    first->next = indirect(sizeof *first);
    first->next->next = 0;
    inside = possible(333);
    inside += 40;
    kept = reachable(sizeof *kept);
    kept->next = 0;
}

APART static int overwrite(int depth) {
    volatile char room[4000];
    for (int i = 0; i < 4000; i++)
        room[i] = 0;
    return depth ? overwrite(depth - 1) + room[depth] : 0;
}

int main(void) {
    lose();
    printf("%d\n", overwrite(3));
    return 0;
}
