// Finds the longest streak of equal results for each team; a new team's last result is read before it was ever set.
// fails: silent
// run: red:w blue:l red:w red:d blue:l red:w green:d
// good: red:w! blue:l! red:d! blue:l!
// good: red:w! red:w red:w! red:l!
// good: green:x blue:d! blue:
// repair:     t->games = 0; t->last = 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct team {
    struct team *next;
    char name[12];
    int games;
    int run, best;
    int points;
    char last, best_of;
};

struct league {
    struct team *first;
    int refused;
};

static struct team *team_for(struct league *l, const char *name)
{
    struct team **at = &l->first;
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0)
            return *at;
    struct team *t = malloc(sizeof *t);
    if (!t)
        exit(2);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->run = t->best = t->points = 0;
    t->best_of = '-';
    t->games = 0; /* BUG */
    t->next = NULL;
    *at = t;
    return t;
}

static int points_for(char result)
{
    return result == 'w' ? 3 : result == 'd' ? 1 : 0;
}

static void book(struct team *t, char result, int fresh)
{
    t->points += points_for(result);
    if (fresh || result != t->last || t->games == 0)
        t->run = 1;
    else
        t->run++;
    t->last = result;
    t->games++;
    if (t->run > t->best) {
        t->best = t->run;
        t->best_of = result;
    }
}

static int read_result(struct league *l, const char *text)
{
    char name[12], result, mark = 0;
    if (sscanf(text, "%11[a-z]:%c%c", name, &result, &mark) < 2)
        return 0;
    if (!strchr("wdl", result))
        return 0;
    book(team_for(l, name), result, mark == '!');
    return 1;
}

int main(int argc, char **argv)
{
    struct league l = { NULL, 0 };
    for (int i = 1; i < argc; i++)
        if (!read_result(&l, argv[i]))
            l.refused++;
    while (l.first) {
        struct team *t = l.first;
        printf("%-8s %d games, %d points, best streak %d of %c\n", t->name, t->games, t->points, t->best, t->best_of);
        l.first = t->next;
        free(t);
    }
    printf("%d refused\n", l.refused);
    return 0;
}
