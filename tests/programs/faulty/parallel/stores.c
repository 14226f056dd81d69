// Moves goods between stores, each with a lock; a move locks the store that gives first and then the one that takes, whichever they are.
// fails: hang
// run: 3 50000
// good: 1 60000
// good: 1 100
// good: 1 3
// repair:     if (from < to) lock_pair(from, to); else lock_pair(to, from);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STORES 3
#define SHELVES 12
#define MAX_MOVERS 6

struct store {
    pthread_mutex_t lock;
    int number;
    long goods;
    long moves;
    long shelves[SHELVES];
};

struct mover {
    int number, rounds;
    long moved, refused;
};

static struct store stores[STORES];

static void take_stock(struct store *s)
{
    s->goods = 0;
    for (int i = 0; i < SHELVES; i++)
        s->goods += s->shelves[i];
}

static void put_on_shelf(struct store *s, long amount)
{
    int best = 0;
    for (int i = 1; i < SHELVES; i++)
        if (amount < 0 ? s->shelves[i] > s->shelves[best] : s->shelves[i] < s->shelves[best])
            best = i;
    s->shelves[best] += amount;
}

static void lock_pair(struct store *a, struct store *b)
{
    pthread_mutex_lock(&a->lock); /* BUG */
    take_stock(a);
    pthread_mutex_lock(&b->lock); /* BUG */
    take_stock(b);
}

static void unlock_pair(struct store *a, struct store *b)
{
    pthread_mutex_unlock(&b->lock);
    pthread_mutex_unlock(&a->lock);
}

static int move_goods(struct store *from, struct store *to, long amount)
{
    int ok = 0;
    lock_pair(from, to); /* REPAIR */
    if (from->goods >= amount) {
        put_on_shelf(from, -amount);
        put_on_shelf(to, amount);
        from->moves++;
        to->moves++;
        ok = 1;
    }
    unlock_pair(from, to);
    return ok;
}

static void *work(void *arg)
{
    struct mover *m = arg;
    unsigned x = 17 + m->number * 101;
    for (int i = 0; i < m->rounds; i++) {
        x = x * 1664525u + 1013904223u;
        int from = (x >> 24) % STORES, to = (x >> 16) % STORES;
        if (from == to)
            to = (to + 1) % STORES;
        if (move_goods(&stores[from], &stores[to], (x >> 10) % 20))
            m->moved++;
        else
            m->refused++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int movers = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    if (movers < 1 || movers > MAX_MOVERS)
        return 2;
    for (int i = 0; i < STORES; i++) {
        pthread_mutex_init(&stores[i].lock, NULL);
        stores[i].number = i;
        for (int k = 0; k < SHELVES; k++)
            stores[i].shelves[k] = 100;
    }
    pthread_t ids[MAX_MOVERS];
    struct mover data[MAX_MOVERS];
    for (int i = 0; i < movers; i++) {
        data[i] = (struct mover){ i, rounds, 0, 0 };
        pthread_create(&ids[i], NULL, work, &data[i]);
    }
    long orders = 0, goods = 0;
    for (int i = 0; i < movers; i++) {
        pthread_join(ids[i], NULL);
        orders += data[i].moved + data[i].refused;
    }
    for (int i = 0; i < STORES; i++)
        for (int k = 0; k < SHELVES; k++)
            goods += stores[i].shelves[k];
    printf("%ld orders, %ld goods\n", orders, goods);
    return 0;
}
