// Makes the table of a league from results; of teams with as many points, the one with more goals against it is put first instead of the one with the better difference.
// fails: output
// run: lions-foxes:3:0 bears-wolves:4:3
// good: lions-bears:3:1 bears-wolves:2:2 wolves-lions:2:0
// good: lions-bears:1:0
// good: lions-bears:2:2 lions-foxes:1:0
// repair:     return (a->scored - a->against) - (b->scored - b->against);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEAMS 16

struct team {
    char name[12];
    int games, points, scored, against;
};

struct league {
    struct team teams[MAX_TEAMS];
    int count, refused;
};

static struct team *team(struct league *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->teams[i].name, name) == 0)
            return &l->teams[i];
    if (l->count == MAX_TEAMS)
        exit(2);
    struct team *t = &l->teams[l->count++];
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static int points_for(int own, int other)
{
    return own > other ? 3 : own == other ? 1 : 0;
}

static void book(struct team *t, int own, int other)
{
    t->games++;
    t->points += points_for(own, other);
    t->scored += own;
    t->against += other;
}

static void result(struct league *l, const char *text)
{
    char home[12], guest[12];
    int own, other;
    if (sscanf(text, "%11[a-z]-%11[a-z]:%d:%d", home, guest, &own, &other) != 4) {
        l->refused++;
        return;
    }
    team(l, home);
    book(team(l, guest), other, own);
    book(team(l, home), own, other);
}

static int difference(const struct team *a, const struct team *b)
{
    return (a->scored + a->against) - (b->scored + b->against); /* BUG */
}

static int before(const struct team *a, const struct team *b)
{
    if (a->points != b->points)
        return a->points > b->points;
    int by = difference(a, b);
    if (by != 0)
        return by > 0;
    return strcmp(a->name, b->name) < 0;
}

static void sort(struct league *l)
{
    for (int i = 1; i < l->count; i++) {
        struct team t = l->teams[i];
        int k = i;
        for (; k > 0 && before(&t, &l->teams[k - 1]); k--)
            l->teams[k] = l->teams[k - 1];
        l->teams[k] = t;
    }
}

int main(int argc, char **argv)
{
    static struct league l;
    for (int i = 1; i < argc; i++)
        result(&l, argv[i]);
    sort(&l);
    printf("team         games points goals\n");
    for (int i = 0; i < l.count; i++) {
        const struct team *t = &l.teams[i];
        printf("%2d %-10s %4d %5d %4d:%d\n", i + 1, t->name, t->games, t->points, t->scored, t->against);
    }
    printf("%d refused\n", l.refused);
    return 0;
}
