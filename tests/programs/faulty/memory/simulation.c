// A simulation driven by events in the order of their times; the cost of an event of service is added after the event was released.
// fails: silent
// run: a2 s5 a1 s3 l9
// good: a2 a1 l9
// good: l4 a7 a1 a1 l8
// good: a1 x2 l1
// repair:         w->cost += e->cost; free(e); break;
#include <stdio.h>
#include <stdlib.h>

struct event {
    struct event *next;
    long time;
    char kind;
    long cost;
};

struct world {
    struct event *first;
    long now, cost;
    int present, served, handled;
};

static void schedule(struct world *w, long time, char kind, long cost)
{
    struct event *e = malloc(sizeof *e), **at = &w->first;
    if (!e)
        exit(2);
    e->time = time;
    e->kind = kind;
    e->cost = cost;
    while (*at && (*at)->time <= time)
        at = &(*at)->next;
    e->next = *at;
    *at = e;
}

static struct event *take(struct world *w)
{
    struct event *e = w->first;
    if (e)
        w->first = e->next;
    return e;
}

static void serve(struct world *w)
{
    if (w->present > 0)
        w->served++;
}

static void handle(struct world *w, struct event *e)
{
    w->now = e->time;
    w->handled++;
    switch (e->kind) {
    case 'a':
        w->present++;
        if (w->handled < 20 && e->cost % 2 == 1)
            schedule(w, w->now + e->cost, 'l', 1);
        free(e);
        break;
    case 'l':
        if (w->present > 0)
            w->present--;
        w->cost += e->cost;
        free(e);
        break;
    case 's':
        serve(w);
        free(e); /* BUG */
        w->cost += e->cost;
        break;
    default:
        printf("%ld: unknown event %c\n", w->now, e->kind);
        free(e);
    }
}

int main(int argc, char **argv)
{
    struct world w = { 0 };
    for (int i = 1; i < argc; i++) {
        char kind;
        int value;
        if (sscanf(argv[i], "%c%d", &kind, &value) == 2)
            schedule(&w, 10 * i, kind, value);
    }
    for (struct event *e; (e = take(&w)) != NULL;) {
        handle(&w, e);
        printf("%ld: %d present, %d served\n", w.now, w.present, w.served);
    }
    printf("%d events, cost %ld\n", w.handled, w.cost);
    return 0;
}
