// A journal that threads write to and that is emptied into an archive when full; a text that is too long is reported to the journal while its lock is still held.
// fails: hang
// run: 2 40 60
// good: 2 40 20
// good: 1 5 30
// good: 3 100 31
// repair:         { pthread_mutex_unlock(&j->lock); return report(j, length); }
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY 32
#define ENTRIES 16
#define MAX_WRITERS 8

struct journal {
    pthread_mutex_t lock;
    int used;
    char entries[ENTRIES][ENTRY];
    long archived, bytes, reports;
};

struct writer {
    struct journal *journal;
    int rounds, longest;
};

static int write_entry(struct journal *j, const char *text);

static void archive(struct journal *j)
{
    for (int i = 0; i < j->used; i++) {
        j->archived++;
        j->bytes += strlen(j->entries[i]);
    }
    j->used = 0;
}

static int report(struct journal *j, size_t length)
{
    char text[ENTRY];
    snprintf(text, sizeof text, "text of %zu left out", length);
    write_entry(j, text);
    return -1;
}

static int write_entry(struct journal *j, const char *text)
{
    size_t length = strlen(text);
    int result = 0;
    pthread_mutex_lock(&j->lock);
    if (j->used == ENTRIES)
        archive(j);
    if (length >= ENTRY)
        result = report(j, length); /* BUG */
    else
        memcpy(j->entries[j->used++], text, length + 1);
    pthread_mutex_unlock(&j->lock);
    return result;
}

static void *work(void *arg)
{
    struct writer *w = arg;
    char text[80];
    int refused = 0;
    for (int i = 0; i < w->rounds; i++) {
        int length = 1 + i * 7 % w->longest;
        memset(text, 'a' + i % 26, length);
        text[length] = '\0';
        if (write_entry(w->journal, text) < 0)
            refused++;
    }
    pthread_mutex_lock(&w->journal->lock);
    w->journal->reports += refused;
    pthread_mutex_unlock(&w->journal->lock);
    return NULL;
}

int main(int argc, char **argv)
{
    int writers = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    int longest = argc > 3 ? atoi(argv[3]) : 10;
    if (writers < 1 || writers > MAX_WRITERS || longest < 1 || longest > 79)
        return 2;
    static struct journal j = { PTHREAD_MUTEX_INITIALIZER };
    struct writer w = { &j, rounds, longest };
    pthread_t ids[MAX_WRITERS];
    for (int i = 0; i < writers; i++)
        pthread_create(&ids[i], NULL, work, &w);
    for (int i = 0; i < writers; i++)
        pthread_join(ids[i], NULL);
    archive(&j);
    printf("%ld entries, %ld bytes, %ld texts refused\n", j.archived, j.bytes, j.reports);
    return 0;
}
