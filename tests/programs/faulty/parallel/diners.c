// Workers around a table share a tool with each neighbour and need both of theirs for a piece; each takes the tool at its left first, so that all may wait in a ring.
// fails: hang
// run: 3 6000
// good: 1 6000
// good: 1 40
// good: 1 3
// repair:     struct tool *first = w->left < w->right ? w->left : w->right, *second = first == w->left ? w->right : w->left;
// flags: -pthread
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PLACES 3

struct tool {
    pthread_mutex_t lock;
    int number;
    long uses;
};

struct worker {
    struct tool *left, *right;
    int rounds, pieces;
    unsigned hash;
};

static struct tool tools[PLACES];

static void prepare(struct worker *w)
{
    for (int i = 0; i < 400; i++)
        w->hash = w->hash * 31 + i;
}

static void make_piece(struct worker *w)
{
    w->pieces++;
    w->left->uses++;
    w->right->uses++;
    w->hash ^= w->hash >> 7;
}

static void work_once(struct worker *w)
{
    struct tool *first = w->left, *second = w->right; /* REPAIR */
    pthread_mutex_lock(&first->lock); /* BUG */
    prepare(w);
    pthread_mutex_lock(&second->lock); /* BUG */
    make_piece(w);
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        work_once(w);
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    if (workers < 1 || workers > PLACES || rounds < 0)
        return 2;
    pthread_t ids[PLACES];
    struct worker data[PLACES];
    for (int i = 0; i < PLACES; i++) {
        pthread_mutex_init(&tools[i].lock, NULL);
        tools[i].number = i;
    }
    for (int i = 0; i < workers; i++) {
        data[i] = (struct worker){ &tools[i], &tools[(i + 1) % PLACES], rounds, 0, 7u + i };
        pthread_create(&ids[i], NULL, work, &data[i]);
    }
    int pieces = 0;
    for (int i = 0; i < workers; i++) {
        pthread_join(ids[i], NULL);
        pieces += data[i].pieces;
        printf("worker %d: %d pieces, %08x\n", i, data[i].pieces, data[i].hash);
    }
    for (int i = 0; i < PLACES; i++)
        printf("tool %d: %ld uses\n", tools[i].number, tools[i].uses);
    printf("%d pieces\n", pieces);
    return 0;
}
