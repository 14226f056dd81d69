// One thread puts out new routing tables and others look things up in the newest; a table is put out before it is filled in.
// fails: SIGABRT
// run: 2 3000
// good: 0 50
// good: 0 2000
// good: 0 1
// repair:     fill(t, version); atomic_store(&newest, t); if (0)
// flags: -pthread
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUTES 64
#define MAX_READERS 4

struct table {
    int version;
    int next_hop[ROUTES];
    int sum;
};

static struct table *_Atomic newest;
static atomic_int stopped;

static int sum_of(const struct table *t)
{
    int sum = t->version;
    for (int i = 0; i < ROUTES; i++)
        sum += t->next_hop[i];
    return sum;
}

static void fill(struct table *t, int version)
{
    t->version = version;
    for (int i = 0; i < ROUTES; i++)
        t->next_hop[i] = (i * 31 + version * 17) % 97 + 1;
    t->sum = sum_of(t);
}

static void publish(struct table *t, int version)
{
    atomic_store(&newest, t); /* BUG */
    fill(t, version);
}

static void *reader(void *arg)
{
    long *looked = arg;
    unsigned x = 7;
    while (!atomic_load(&stopped)) {
        struct table *t = atomic_load(&newest);
        x = x * 1664525u + 1013904223u;
        int hop = t->next_hop[(x >> 8) % ROUTES];
        assert(hop > 0);
        ++*looked;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int readers = argc > 1 ? atoi(argv[1]) : 1;
    int versions = argc > 2 ? atoi(argv[2]) : 10;
    if (readers < 0 || readers > MAX_READERS || versions < 1)
        return 2;
    struct table *tables = calloc(versions, sizeof *tables);
    pthread_t ids[MAX_READERS];
    long looked[MAX_READERS] = { 0 };
    if (!tables)
        return 2;
    publish(&tables[0], 1);
    for (int i = 0; i < readers; i++)
        pthread_create(&ids[i], NULL, reader, &looked[i]);
    for (int v = 1; v < versions; v++) {
        publish(&tables[v], v + 1);
        if (v % 64 == 0)
            sched_yield();
    }
    atomic_store(&stopped, 1);
    for (int i = 0; i < readers; i++)
        pthread_join(ids[i], NULL);
    struct table *t = atomic_load(&newest);
    printf("version %d, sum %d, %s\n", t->version, t->sum, sum_of(t) == t->sum ? "sound" : "broken");
    free(tables);
    return 0;
}
