// A phrase book of pairs that can be looked up and removed; the block for the translation has no room for its terminator.
// fails: SIGABRT
// run: good=bon 'good day to you my friend'='bonne journee a toi, ami' night=nuit -good ?night
// good: good=bon night=nuit -good ?night
// good: 'good morning to all of you'='bonjour' tea=the ?tea -tea ?tea
// good: good=bon 'yes sir'='oui monsieur' -'yes sir' ?good -bread
// repair:     p->foreign = malloc(strlen(foreign) + 1);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct phrase {
    struct phrase *next;
    char *foreign;
    char *own;
    int asked;
};

struct book {
    struct phrase *first;
    int count;
};

static struct phrase *add(struct book *b, const char *own, const char *foreign)
{
    struct phrase *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    p->foreign = malloc(strlen(foreign)); /* BUG */
    p->own = malloc(strlen(own) + 1);
    if (!p->foreign || !p->own)
        return NULL;
    strcpy(p->own, own);
    strcpy(p->foreign, foreign);
    p->asked = 0;
    p->next = b->first;
    b->first = p;
    b->count++;
    return p;
}

static struct phrase **find(struct book *b, const char *own)
{
    struct phrase **at = &b->first;
    while (*at && strcmp((*at)->own, own) != 0)
        at = &(*at)->next;
    return at;
}

static int delete(struct book *b, const char *own)
{
    struct phrase **at = find(b, own), *p = *at;
    if (!p)
        return 0;
    *at = p->next;
    free(p->own);
    free(p->foreign);
    free(p);
    b->count--;
    return 1;
}

static void clear(struct book *b)
{
    while (b->first)
        delete(b, b->first->own);
}

int main(int argc, char **argv)
{
    struct book b = { NULL, 0 };
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i], *eq = strchr(arg, '=');
        if (*arg == '-') {
            printf("%s: %s\n", arg + 1, delete(&b, arg + 1) ? "removed" : "not known");
        } else if (*arg == '?') {
            struct phrase *p = *find(&b, arg + 1);
            if (p)
                p->asked++;
            printf("%s: %s\n", arg + 1, p ? p->foreign : "not known");
        } else if (eq) {
            *eq = '\0';
            if (!add(&b, arg, eq + 1))
                return 2;
        }
    }
    for (struct phrase *p = b.first; p; p = p->next)
        printf("%s -> %s (asked %d times)\n", p->own, p->foreign, p->asked);
    printf("%d phrases\n", b.count);
    clear(&b);
    return 0;
}
