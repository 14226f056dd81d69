// An allocator that tidies up when it is told to, in functions of its own that have no names: it writes to blocks that were given back.
// finds: nothing
#include <malloc.h>
#include <stdlib.h>

int main(void) {
    void *blocks[40];
    // More than each thread keeps for itself.
    for (int i = 0; i < 40; i++)
        blocks[i] = malloc(40);
    for (int i = 0; i < 40; i++)
        free(blocks[i]);
    malloc_trim(0);
    free(malloc(100));
    return 0;
}
