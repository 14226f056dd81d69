// A registry of handlers by name, used by some threads while one takes handlers out and puts them in; a caller asks whether a name is known and then looks it up again.
// fails: SIGSEGV
// run: 2 100000
// good: 0 1000
// good: 0 100000
// good: 0 3
// repair:     if (!h) return -1; h->calls++;
// flags: -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8
#define MAX_CALLERS 4

struct handler {
    const char *name;
    long (*function)(long);
    atomic_long calls;
};

struct registry {
    pthread_mutex_t lock;
    struct handler *slots[SLOTS];
};

struct caller {
    struct registry *registry;
    long done, missed, result;
};

static atomic_int stopped;

static long twice(long x) { return 2 * x; }
static long square(long x) { return x * x; }
static long negate(long x) { return -x; }

static struct handler handlers[] = {
    { "twice", twice }, { "square", square }, { "negate", negate },
};

static int slot_of(struct registry *r, const char *name)
{
    for (int i = 0; i < SLOTS; i++)
        if (r->slots[i] && strcmp(r->slots[i]->name, name) == 0)
            return i;
    return -1;
}

static void put_in(struct registry *r, struct handler *h)
{
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < SLOTS; i++) {
        if (!r->slots[i]) {
            r->slots[i] = h;
            break;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

static int take_out(struct registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    int slot = slot_of(r, name);
    if (slot >= 0)
        r->slots[slot] = NULL;
    pthread_mutex_unlock(&r->lock);
    return slot >= 0;
}

static int is_known(struct registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    int slot = slot_of(r, name);
    pthread_mutex_unlock(&r->lock);
    return slot >= 0;
}

static struct handler *lookup(struct registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    int slot = slot_of(r, name);
    struct handler *h = slot >= 0 ? r->slots[slot] : NULL;
    pthread_mutex_unlock(&r->lock);
    return h;
}

static int call(struct registry *r, const char *name, long x, long *result)
{
    if (!is_known(r, name)) /* BUG */
        return -1;
    struct handler *h = lookup(r, name); /* BUG */
    h->calls++; /* REPAIR */
    *result += h->function(x);
    return 0;
}

static void *caller(void *arg)
{
    struct caller *c = arg;
    for (long x = 1; !atomic_load(&stopped); x++) {
        if (call(c->registry, handlers[x % 3].name, x % 100, &c->result) == 0)
            c->done++;
        else
            c->missed++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int callers = argc > 1 ? atoi(argv[1]) : 1;
    int changes = argc > 2 ? atoi(argv[2]) : 100;
    static struct registry r = { PTHREAD_MUTEX_INITIALIZER };
    if (callers < 0 || callers > MAX_CALLERS)
        return 2;
    pthread_t ids[MAX_CALLERS];
    struct caller data[MAX_CALLERS];
    for (int i = 0; i < 3; i++)
        put_in(&r, &handlers[i]);
    for (int i = 0; i < callers; i++) {
        data[i] = (struct caller){ &r, 0, 0, 0 };
        pthread_create(&ids[i], NULL, caller, &data[i]);
    }
    int taken = 0;
    for (int i = 0; i < changes; i++) {
        struct handler *h = &handlers[i % 3];
        taken += take_out(&r, h->name);
        put_in(&r, h);
    }
    atomic_store(&stopped, 1);
    long result = 0;
    for (int i = 0; i < callers; i++)
        pthread_join(ids[i], NULL);
    call(&r, "square", 12, &result);
    printf("%d taken out, square gives %ld\n", taken, result);
    return 0;
}
