// A recursion without an end: a tree's node is its own child.
// fails: SIGSEGV
// slice: full
// repair: nodes[i].right = 2 * i + 2 < COUNT ? 2 * i + 2 : -1;
#include <stdio.h>

#define COUNT 7

struct node {
    int value, left, right;
};

static struct node nodes[COUNT];
static int values;

static void build(void) {
    for (int i = 0; i < COUNT; i++) {
        nodes[i].value = i * i; /* NOT */
        nodes[i].left = 2 * i + 1 < COUNT ? 2 * i + 1 : -1;
        nodes[i].right = 2 * i + 2 < COUNT ? 2 * i + 2 : i == COUNT - 1 ? 0 : -1; /* BUG */
        values++; /* NOT */
    }
}

static int depth(int node) {
    if (node < 0)
        return 0;
    int left = depth(nodes[node].left);
    int right = depth(nodes[node].right);
    return 1 + (left > right ? left : right);
}

int main(void) {
    build();
    printf("%d values\n", values);
    printf("depth %d\n", depth(0));
    return 0;
}
