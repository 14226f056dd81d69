// Splits "key = value" arguments and adds up the values by key; with blanks in front it releases the moved pointer and not the block.
// fails: SIGABRT
// run: 'tea=3' ' milk = 4' 'tea=5'
// good: 'tea=3' 'milk=4' 'tea=5'
// good: 'tea =3' 'milk = 4 ' 'tea'
// good: 'tea=3' '=4' '' 'bread =  7'
// repair:     free(copy);
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SUMS 32

struct sum {
    char key[20];
    long total;
    int times;
};

struct ledger {
    struct sum sums[MAX_SUMS];
    int count;
    int refused;
};

static struct sum *sum_for(struct ledger *l, const char *key)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->sums[i].key, key) == 0)
            return &l->sums[i];
    if (l->count == MAX_SUMS)
        return NULL;
    struct sum *s = &l->sums[l->count++];
    snprintf(s->key, sizeof s->key, "%s", key);
    return s;
}

static char *skip_blanks(char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static void cut_blanks(char *p)
{
    size_t n = strlen(p);
    while (n > 0 && isspace((unsigned char)p[n - 1]))
        p[--n] = '\0';
}

static int add_pair(struct ledger *l, const char *text)
{
    int ok = 0;
    char *copy = strdup(text);
    if (!copy)
        exit(2);
    char *key = skip_blanks(copy);
    char *eq = strchr(key, '=');
    if (eq && eq != key) {
        *eq = '\0';
        cut_blanks(key);
        struct sum *s = sum_for(l, key);
        if (s) {
            s->total += strtol(skip_blanks(eq + 1), NULL, 10);
            s->times++;
            ok = 1;
        }
    }
    free(key); /* BUG */
    return ok;
}

int main(int argc, char **argv)
{
    static struct ledger ledger;
    for (int i = 1; i < argc; i++)
        if (!add_pair(&ledger, argv[i]))
            ledger.refused++;
    for (int i = 0; i < ledger.count; i++) {
        const struct sum *s = &ledger.sums[i];
        printf("%-10s %6ld (%d)\n", s->key, s->total, s->times);
    }
    printf("%d refused\n", ledger.refused);
    return 0;
}
