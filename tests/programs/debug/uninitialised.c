/* A pointer is never set: it has what the block held for somebody else before. */
#include <stdlib.h>

struct pair {
    long first[2];
    long *second;
};

static void before(void)
{
    struct pair *pair = malloc(sizeof *pair);
    pair->second = (long *)0x4444; /* CULPRIT */
    free(pair);
}

int main(void)
{
    before();
    struct pair *pair = malloc(sizeof *pair);
    pair->first[0] = 1;
    return (int)*pair->second;
}
