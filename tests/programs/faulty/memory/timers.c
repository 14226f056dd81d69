// Timers in a list, fired as the clock moves; a timer taken out from behind the head is released before the step to its successor is made.
// fails: SIGSEGV
// run: lamp=5x3 tea=4x1 bell=6x2 @12
// good: lamp=5x3 bell=6x3 @12
// good: tea=4x1 lamp=5x4 bell=6x9 @12 tick=1x1
// good: a=3x1 b=3x1 c=9x9 @20 d=7x2 @2
// repair:             free(t); t = prev;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct timer {
    struct timer *next;
    int period, left, due;
    char name[12];
};

struct list {
    struct timer *head;
    int count, fired;
};

static void append(struct list *l, const char *name, int period, int times, int now)
{
    struct timer *t = calloc(1, sizeof *t);
    if (!t)
        exit(2);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->period = period;
    t->left = times;
    t->due = now + period;
    struct timer **end = &l->head;
    while (*end)
        end = &(*end)->next;
    *end = t;
    l->count++;
}

/* Says whether the timer is used up. */
static int fire(struct list *l, struct timer *t, int now)
{
    if (t->due > now)
        return 0;
    printf("%4d %s\n", now, t->name);
    l->fired++;
    t->due += t->period;
    return --t->left == 0;
}

static void tick(struct list *l, int now)
{
    while (l->head && fire(l, l->head, now)) {
        struct timer *old = l->head;
        l->head = old->next;
        free(old);
        l->count--;
    }
    struct timer *prev = l->head;
    if (!prev)
        return;
    for (struct timer *t = prev->next; t; t = t->next) {
        if (fire(l, t, now)) {
            prev->next = t->next;
            l->count--;
            free(t); /* BUG */
        } else {
            prev = t;
        }
    }
}

static void advance(struct list *l, int *now, int by)
{
    for (int end = *now + by; *now < end;)
        tick(l, ++*now);
}

int main(int argc, char **argv)
{
    struct list l = { NULL, 0, 0 };
    int now = 0;
    for (int i = 1; i < argc; i++) {
        char name[12];
        int period, times;
        if (argv[i][0] == '@') {
            advance(&l, &now, atoi(argv[i] + 1));
        } else if (sscanf(argv[i], "%11[a-z]=%dx%d", name, &period, &times) == 3 && period > 0 && times > 0) {
            append(&l, name, period, times, now);
        } else {
            printf("cannot read %s\n", argv[i]);
        }
    }
    printf("at %d: %d left, %d fired\n", now, l.count, l.fired);
    return 0;
}
