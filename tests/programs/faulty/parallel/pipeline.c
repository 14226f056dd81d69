// A source hands numbers in blocks to a summing thread over a ring; the source says that it is done before it hands over its last block.
// fails: output
// run: 100 3000
// good: 20 960
// good: 20 32
// good: 20 0
// repair:     if (p->open.count > 0) { hand_over(p); } atomic_store(&p->done, 1);
// flags: -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK 32
#define RING 64

struct block {
    int count;
    unsigned check;
    long items[BLOCK];
};

struct pipe {
    struct block ring[RING];
    atomic_int head, tail;
    atomic_int done;
    struct block open;
    long last;
    long sum, received, damaged;
};

static unsigned check_of(const struct block *b)
{
    unsigned check = b->count;
    for (int i = 0; i < b->count; i++)
        for (int k = 0; k < 32; k += 8)
            check = check * 33 ^ (b->items[i] >> k & 255);
    return check;
}

static void hand_over(struct pipe *p)
{
    int tail = atomic_load(&p->tail);
    while (tail - atomic_load(&p->head) == RING)
        sched_yield();
    p->open.check = check_of(&p->open);
    p->ring[tail % RING] = p->open;
    p->open.count = 0;
    atomic_store(&p->tail, tail + 1);
}

static void put(struct pipe *p, long item)
{
    p->open.items[p->open.count++] = item;
    if (p->open.count == BLOCK)
        hand_over(p);
}

static void finish(struct pipe *p)
{
    atomic_store(&p->done, 1); /* BUG */
    if (p->open.count > 0)
        hand_over(p);
}

static void *source(void *arg)
{
    struct pipe *p = arg;
    for (long i = 1; i <= p->last; i++)
        put(p, i * i % 1009);
    finish(p);
    return NULL;
}

static int take(struct pipe *p, struct block *b)
{
    for (;;) {
        int done = atomic_load(&p->done);
        int head = atomic_load(&p->head);
        if (head < atomic_load(&p->tail)) {
            *b = p->ring[head % RING];
            atomic_store(&p->head, head + 1);
            return 1;
        }
        if (done)
            return 0;
        sched_yield();
    }
}

static void *drain(void *arg)
{
    struct pipe *p = arg;
    struct block b;
    while (take(p, &b)) {
        for (int i = 0; i < b.count; i++)
            p->sum += b.items[i];
        p->received += b.count;
        p->damaged += b.check != check_of(&b);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    long last = argc > 2 ? atol(argv[2]) : 100;
    long sum = 0, received = 0, damaged = 0;
    for (int r = 0; r < rounds; r++) {
        struct pipe *p = calloc(1, sizeof *p);
        pthread_t from, to;
        if (!p)
            return 2;
        p->last = last;
        pthread_create(&to, NULL, drain, p);
        pthread_create(&from, NULL, source, p);
        pthread_join(from, NULL);
        pthread_join(to, NULL);
        sum += p->sum;
        received += p->received;
        damaged += p->damaged;
        free(p);
    }
    printf("%d rounds, %ld items, sum %ld, %ld damaged\n", rounds, received, sum, damaged);
    return 0;
}
