// Counts letters of a generated text with several threads; the counters are shared and are counted up without a lock.
// fails: output
// run: 4 1500000
// good: 1 1000
// good: 1 100000
// good: 1 26
// repair:     pthread_mutex_lock(&t->lock); t->counts[class]++; pthread_mutex_unlock(&t->lock);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 8
enum { VOWEL, CONSONANT, BLANK, CLASSES };

struct tally {
    long counts[CLASSES];
    pthread_mutex_t lock;
    int finished;
};

struct part {
    struct tally *tally;
    const char *text;
    size_t length;
};

static char *make_text(size_t n)
{
    static const char letters[] = "etaoin shrdlu cmfwyp vbgkqjxz ";
    char *text = malloc(n + 1);
    unsigned x = 12345;
    if (!text)
        exit(2);
    for (size_t i = 0; i < n; i++) {
        x = x * 1103515245u + 12345u;
        text[i] = letters[(x >> 16) % (sizeof letters - 1)];
    }
    text[n] = '\0';
    return text;
}

static int classify(char c)
{
    if (c == ' ')
        return BLANK;
    return strchr("aeiou", c) ? VOWEL : CONSONANT;
}

static void add(struct tally *t, int class)
{
    t->counts[class]++; /* BUG */
}

static void *work(void *arg)
{
    struct part *p = arg;
    for (size_t i = 0; i < p->length; i++)
        add(p->tally, classify(p->text[i]));
    pthread_mutex_lock(&p->tally->lock);
    p->tally->finished++;
    pthread_mutex_unlock(&p->tally->lock);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    static struct tally tally;
    pthread_mutex_init(&tally.lock, NULL);
    char *text = make_text(n);
    pthread_t ids[MAX_THREADS];
    struct part parts[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        size_t from = n * i / threads, to = n * (i + 1) / threads;
        parts[i] = (struct part){ &tally, text + from, to - from };
        pthread_create(&ids[i], NULL, work, &parts[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("vowels %ld, consonants %ld, blanks %ld\n", tally.counts[VOWEL], tally.counts[CONSONANT], tally.counts[BLANK]);
    printf("%d parts\n", tally.finished);
    free(text);
    return 0;
}
