// Counts words by means of a hash table with chains; the first entry of a chain keeps whatever its block held as its next pointer.
// fails: SIGSEGV
// run: the quick supercalifragilisticexpialidocious brown fox and the lazy dog
// good: the quick brown fox and the lazy dog
// good: one two three and four or one
// good: strange misunderstandings and the like
// good: a quick fox and incomprehensibilities of a fox
// repair:     e->next = *slot;
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 8
#define LONGEST 24

struct entry {
    char *word;
    int count;
    int first, last;
    struct entry *next;
};

struct table {
    struct entry *bucket[BUCKETS];
    int words, skipped;
};

static const char *const stop_words[] = { "and", "or", "the", "a" };

static unsigned hash(const char *s)
{
    unsigned h = 5381;
    while (*s)
        h = h * 33 + (unsigned char)*s++;
    return h % BUCKETS;
}

static char *lower(const char *s)
{
    char *copy = malloc(strlen(s) + 1);
    if (!copy)
        exit(2);
    size_t i;
    for (i = 0; s[i]; i++)
        copy[i] = tolower((unsigned char)s[i]);
    copy[i] = '\0';
    return copy;
}

static int wanted(const char *word)
{
    if (strlen(word) > LONGEST)
        return 0;
    for (size_t i = 0; i < sizeof stop_words / sizeof stop_words[0]; i++)
        if (strcmp(word, stop_words[i]) == 0)
            return 0;
    return 1;
}

static struct entry *find(struct table *t, const char *word)
{
    for (struct entry *e = t->bucket[hash(word)]; e; e = e->next)
        if (strcmp(e->word, word) == 0)
            return e;
    return NULL;
}

static void insert(struct table *t, char *word, int position)
{
    struct entry *e = malloc(sizeof *e);
    if (!e)
        exit(2);
    struct entry **slot = &t->bucket[hash(word)];
    e->word = word;
    e->count = 1;
    e->first = e->last = position;
    if (*slot) e->next = *slot; /* BUG */
    *slot = e;
    t->words++;
}

static void count(struct table *t, const char *text, int position)
{
    char *word = lower(text);
    if (!wanted(word)) {
        t->skipped++;
        free(word);
        return;
    }
    struct entry *e = find(t, word);
    if (e) {
        e->count++;
        e->last = position;
        free(word);
    } else {
        insert(t, word, position);
    }
}

static void report(const struct table *t)
{
    for (int b = 0; b < BUCKETS; b++)
        for (const struct entry *e = t->bucket[b]; e; e = e->next)
            printf("%-20s %d (%d to %d)\n", e->word, e->count, e->first, e->last);
    printf("%d different words, %d skipped\n", t->words, t->skipped);
}

int main(int argc, char **argv)
{
    static struct table t;
    for (int i = 1; i < argc; i++)
        count(&t, argv[i], i);
    report(&t);
    return 0;
}
