// Memory that is still used was taken away: by which call, and where.
// run: unmap
// run: move
// run: close
// says: the memory at 0x
// says: in grow at
// among: 2
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
struct ring {
    char *base;
    size_t size;
};
static void *fresh(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void grow(struct ring *ring, const char *how) {
    char *larger = fresh(2 * ring->size);
    memcpy(larger, ring->base, ring->size);
    // clang-format off
    if (!strcmp(how, "unmap")) munmap(ring->base, ring->size); else if (!strcmp(how, "close")) mprotect(ring->base, ring->size, PROT_NONE); else mremap(ring->base, ring->size, ring->size, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(ring->size)); /* BUG */
    // clang-format on
    ring->base = larger;
    ring->size *= 2;
}
int main(int argc, char **argv) {
    struct ring ring = {fresh(65536), 65536};
    strcpy(ring.base + 100, "hello");
    char *word = ring.base + 100;
    grow(&ring, argv[1]);
    return *word != 'h';
}
