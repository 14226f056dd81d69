// An assertion fails: a ring loses the place of its end, since it is taken modulo the wrong number.
// fails: SIGABRT
// slice: thin
// repair: ring->end = (ring->end + 1) % SIZE;
#include <assert.h>
#include <stdio.h>

#define SIZE 8

struct ring {
    int items[SIZE];
    unsigned start, end, used;
    long seen;
};

static void put(struct ring *ring, int item) {
    ring->items[ring->end] = item;
    ring->end = (ring->end + 1) % (SIZE - 1); /* BUG */
    ring->used++;
    ring->seen += item; /* NOT */
}

static int take(struct ring *ring) {
    int item = ring->items[ring->start];
    ring->start = (ring->start + 1) % SIZE;
    ring->used--;
    return item;
}

static void check(const struct ring *ring) {
    assert((ring->start + ring->used) % SIZE == ring->end);
}

int main(void) {
    struct ring ring = {0};
    for (int i = 0; i < 20; i++) {
        put(&ring, i * i);
        if (i % 3)
            printf("%d\n", take(&ring));
        check(&ring);
    }
    return 0;
}
