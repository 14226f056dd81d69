// A sender gives parcels to a packer through a single place and waits for each to be packed; whether one is there is asked before the lock is taken, so that the wake-up may be lost.
// fails: hang
// run: 1 2000
// good: 0 8000
// good: 0 20
// good: 0 1
// repair:         while (!m->set) pthread_cond_wait(&p->changed, &p->lock);
// flags: -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SPINS 300
#define RECENT 16

struct mark {
    atomic_int set;
    unsigned waits[RECENT];
    unsigned turn;
};

struct place {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mark full, packed;
    int weight;
};

struct packer {
    struct place *place;
    int count;
    long weight, price;
};

static unsigned spin(const struct mark *m)
{
    unsigned n = 0;
    while (n < SPINS && !m->set)
        n++;
    return n;
}

/* The longer the recent waits were, the sooner a thread goes to sleep. */
static int worth_sleeping(const struct mark *m, unsigned spins)
{
    unsigned sum = spins;
    for (int i = 0; i < RECENT; i++)
        sum += m->waits[i];
    return sum >= SPINS;
}

static void wait_for(struct place *p, struct mark *m)
{
    while (!m->set) { /* BUG */
        unsigned spins = spin(m);
        m->waits[m->turn++ % RECENT] = spins;
        if (!worth_sleeping(m, spins))
            continue;
        pthread_mutex_lock(&p->lock);
        pthread_cond_wait(&p->changed, &p->lock); /* REPAIR */
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_lock(&p->lock);
    m->set = 0;
    pthread_mutex_unlock(&p->lock);
}

static void tell(struct place *p, struct mark *m)
{
    pthread_mutex_lock(&p->lock);
    m->set = 1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static int price_of(int weight)
{
    return weight < 10 ? 3 : weight < 50 ? 5 : 9;
}

static void pack(struct packer *k, int weight)
{
    k->count++;
    k->weight += weight;
    k->price += price_of(weight);
}

static void *packing(void *arg)
{
    struct packer *k = arg;
    struct place *p = k->place;
    for (;;) {
        wait_for(p, &p->full);
        int weight = p->weight;
        if (weight < 0)
            return NULL;
        pack(k, weight);
        tell(p, &p->packed);
    }
}

static void send_parcel(struct place *p, int weight)
{
    p->weight = weight;
    tell(p, &p->full);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    int parcels = argc > 2 ? atoi(argv[2]) : 10;
    static struct place p = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };
    struct packer k = { &p, 0, 0, 0 };
    pthread_t id;
    if (threads)
        pthread_create(&id, NULL, packing, &k);
    for (int i = 0; i < parcels; i++) {
        int weight = i * 37 % 71 + 1;
        send_parcel(&p, weight);
        if (!threads) {
            wait_for(&p, &p.full);
            pack(&k, weight);
            tell(&p, &p.packed);
        }
        wait_for(&p, &p.packed);
    }
    if (threads) {
        send_parcel(&p, -1);
        pthread_join(id, NULL);
    }
    printf("%d parcels of %ld for %ld\n", k.count, k.weight, k.price);
    return 0;
}
