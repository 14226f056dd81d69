// Threads take and give back references to one shared text; the number of references is changed without a lock and not atomically.
// fails: SIGABRT
// run: 4 30000
// good: 1 1000
// good: 1 30000
// good: 1 1
// repair:     _Atomic int refs;
// flags: -pthread
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 8

struct text {
    int refs; /* REPAIR */
    size_t length;
    char *bytes;
};

struct worker {
    struct text *text;
    int rounds;
    unsigned long letters;
};

static struct text *text_new(const char *s)
{
    struct text *t = malloc(sizeof *t);
    if (!t)
        exit(2);
    t->refs = 1;
    t->length = strlen(s);
    t->bytes = strdup(s);
    return t;
}

static struct text *text_get(struct text *t)
{
    assert(t->refs > 0);
    t->refs++; /* BUG */
    return t;
}

static void text_put(struct text *t)
{
    assert(t->refs > 0);
    if (--t->refs > 0) /* BUG */
        return;
    memset(t->bytes, 0, t->length);
    free(t->bytes);
    free(t);
}

static unsigned long count_letter(const struct text *t, char c)
{
    unsigned long n = 0;
    for (size_t i = 0; i < t->length; i++)
        n += t->bytes[i] == c;
    return n;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        struct text *t = text_get(w->text);
        w->letters += count_letter(t, 'a' + i % 26);
        text_put(t);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    struct text *t = text_new("two cats sat");
    pthread_t ids[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    unsigned long letters = 0;
    text_get(t);
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){ t, rounds, 0 };
        pthread_create(&ids[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        letters += workers[i].letters;
    }
    assert(t->refs == 2);
    text_put(t);
    text_put(t);
    printf("%lu letters found\n", letters);
    return 0;
}
