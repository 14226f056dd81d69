// Reads a net of stops with connections and walks along it; a stop that is named only as an end of a connection has no place of its own, which the walk does not ask.
// fails: SIGSEGV
// run: a>b b>c c>d : b 1 a 6
// good: a>b b>a : a 3 b 1
// good: a>b b>c c>a : c 7
// good: x>x : x 2
// repair:         if (!at->next) { net->ended++; break; } at = at->next;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STOPS 32

struct stop {
    char name;
    int visits;
    struct stop *next;
};

struct net {
    struct stop *stops[MAX_STOPS];
    int count, ended;
};

static struct stop *find(struct net *net, char name)
{
    for (int i = 0; i < net->count; i++)
        if (net->stops[i]->name == name)
            return net->stops[i];
    return NULL;
}

static struct stop *add(struct net *net, char name)
{
    struct stop *s = find(net, name);
    if (s)
        return s;
    if (net->count == MAX_STOPS)
        exit(2);
    s = calloc(1, sizeof *s);
    if (!s)
        exit(2);
    s->name = name;
    return net->stops[net->count++] = s;
}

static void connect(struct net *net, const char *text)
{
    struct stop *from = add(net, text[0]);
    from->next = add(net, text[2]);
}

static int walk(struct net *net, struct stop *at, int steps)
{
    int distance = 0;
    while (steps-- >= 0) {
        at->visits++;
        distance += 2 + at->name % 3;
        at = at->next; /* BUG */
    }
    return distance;
}

int main(int argc, char **argv)
{
    struct net net;
    memset(&net, 0, sizeof net);
    int i = 1;
    for (; i < argc && strcmp(argv[i], ":") != 0; i++)
        if (strlen(argv[i]) == 3 && argv[i][1] == '>')
            connect(&net, argv[i]);
    for (i++; i + 1 < argc; i += 2) {
        struct stop *from = find(&net, argv[i][0]);
        if (!from) {
            printf("no stop %s\n", argv[i]);
            continue;
        }
        printf("from %c %s steps: %d\n", from->name, argv[i + 1], walk(&net, from, atoi(argv[i + 1])));
    }
    for (int k = 0; k < net.count; k++) {
        printf("%c visited %d times\n", net.stops[k]->name, net.stops[k]->visits);
        free(net.stops[k]);
    }
    return 0;
}
