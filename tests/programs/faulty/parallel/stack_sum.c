// Threads share a stack of numbers; one adds up all that are on it by the length it had while another pops, and each step alone takes the lock.
// fails: SIGABRT
// run: 1 200000
// good: 0 1000
// good: 0 40000
// good: 0 5
// repair:     pthread_mutex_lock(&s->lock); int n = s->count; while (n > 0) sum += s->items[--n]; pthread_mutex_unlock(&s->lock);
// flags: -pthread
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROOM 64

struct stack {
    pthread_mutex_t lock;
    int count;
    long items[ROOM];
};

struct watcher {
    struct stack *stack;
    long sums, greatest;
};

static atomic_int stopped;

static int push(struct stack *s, long item)
{
    pthread_mutex_lock(&s->lock);
    int ok = s->count < ROOM;
    if (ok)
        s->items[s->count++] = item;
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static int pop(struct stack *s, long *item)
{
    pthread_mutex_lock(&s->lock);
    int ok = s->count > 0;
    if (ok)
        *item = s->items[--s->count];
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static int length(struct stack *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->count;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static long item_at(struct stack *s, int i)
{
    pthread_mutex_lock(&s->lock);
    assert(i < s->count);
    long item = s->items[i];
    pthread_mutex_unlock(&s->lock);
    return item;
}

static long total(struct stack *s)
{
    long sum = 0;
    int n = length(s); /* BUG */
    for (int i = 0; i < n; i++)
        sum += item_at(s, i); /* BUG */
    return sum;
}

static void *watch(void *arg)
{
    struct watcher *w = arg;
    while (!atomic_load(&stopped)) {
        long sum = total(w->stack);
        if (sum > w->greatest)
            w->greatest = sum;
        w->sums++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int watchers = argc > 1 ? atoi(argv[1]) : 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 100;
    static struct stack s = { PTHREAD_MUTEX_INITIALIZER };
    struct watcher w = { &s, 0, 0 };
    pthread_t id;
    if (watchers)
        pthread_create(&id, NULL, watch, &w);
    long item, popped = 0;
    unsigned x = 99;
    for (int i = 0; i < rounds; i++) {
        x = x * 1664525u + 1013904223u;
        if (x >> 31)
            push(&s, x >> 16 & 255);
        else if (pop(&s, &item))
            popped += item;
    }
    atomic_store(&stopped, 1);
    if (watchers)
        pthread_join(id, NULL);
    printf("popped %ld, left %ld on %d places\n", popped, total(&s), length(&s));
    return 0;
}
