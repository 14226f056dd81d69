// Sessions in a list that one thread closes and opens while another walks along the list to report; the walk does not take the list's lock.
// fails: SIGSEGV
// run: 1 60000
// good: 0 1000
// good: 0 30000
// good: 0 1
// repair:         pthread_mutex_lock(&list.lock), walk(r), pthread_mutex_unlock(&list.lock);
// flags: -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    struct session *next;
    int id;
    long bytes;
    char *user;
};

struct sessions {
    pthread_mutex_t lock;
    struct session *first;
    int count;
};

struct report {
    long walks, seen, letters;
};

static struct sessions list = { PTHREAD_MUTEX_INITIALIZER, NULL, 0 };
static atomic_int stopped;

static void open_session(int id)
{
    struct session *s = malloc(sizeof *s);
    char name[24];
    if (!s)
        exit(2);
    snprintf(name, sizeof name, "user%d", id % 100);
    s->id = id;
    s->bytes = id * 10L;
    s->user = strdup(name);
    pthread_mutex_lock(&list.lock);
    s->next = list.first;
    list.first = s;
    list.count++;
    pthread_mutex_unlock(&list.lock);
}

static long close_session(int id)
{
    long bytes = 0;
    pthread_mutex_lock(&list.lock);
    for (struct session **at = &list.first; *at; at = &(*at)->next) {
        struct session *s = *at;
        if (s->id != id)
            continue;
        *at = s->next;
        bytes = s->bytes;
        free(s->user);
        s->user = NULL;
        free(s);
        list.count--;
        break;
    }
    pthread_mutex_unlock(&list.lock);
    return bytes;
}

static void walk(struct report *r)
{
    r->walks++;
    for (struct session *s = list.first; s; s = s->next) { /* BUG */
        r->seen++;
        r->letters += strlen(s->user); /* BUG */
    }
}

static void *reporter(void *arg)
{
    struct report *r = arg;
    while (!atomic_load(&stopped))
        walk(r); /* REPAIR */
    return NULL;
}

int main(int argc, char **argv)
{
    int reporters = argc > 1 ? atoi(argv[1]) : 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 100;
    struct report report = { 0, 0, 0 };
    pthread_t id;
    long bytes = 0;
    for (int i = 0; i < 12; i++)
        open_session(i);
    if (reporters)
        pthread_create(&id, NULL, reporter, &report);
    for (int i = 12; i < rounds; i++) {
        bytes += close_session(i - 12 + i % 3);
        open_session(i);
        if (list.count > 40)
            bytes += close_session(list.first->id);
    }
    atomic_store(&stopped, 1);
    if (reporters)
        pthread_join(id, NULL);
    walk(&report);
    printf("%d sessions left, %ld bytes\n", list.count, bytes);
    return 0;
}
