// Workers take orders from a list until it is closed; whoever closes it wakes only one of those who wait, so that the others wait for ever.
// fails: hang
// run: 3 40
// good: 1 40
// good: 1 1
// good: 1 200
// repair:     pthread_cond_broadcast(&w->more);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_WORKERS 8
#define ROOM 256

struct workshop {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int orders[ROOM];
    int first, next, closed;
};

struct worker {
    struct workshop *shop;
    int done;
    long hours;
};

static void put(struct workshop *w, int order)
{
    pthread_mutex_lock(&w->lock);
    if (w->next < ROOM)
        w->orders[w->next++] = order;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

static int take(struct workshop *w, int *order)
{
    pthread_mutex_lock(&w->lock);
    while (w->first == w->next && !w->closed)
        pthread_cond_wait(&w->more, &w->lock);
    int is_one = w->first < w->next;
    if (is_one)
        *order = w->orders[w->first++];
    pthread_mutex_unlock(&w->lock);
    return is_one;
}

static void close_shop(struct workshop *w)
{
    pthread_mutex_lock(&w->lock);
    w->closed = 1;
    pthread_cond_signal(&w->more); /* BUG */
    pthread_mutex_unlock(&w->lock);
}

static int hours_for(int order)
{
    int hours = 1;
    for (int k = order; k > 1; k = k % 2 ? 3 * k + 1 : k / 2)
        hours++;
    return hours;
}

static void *work(void *arg)
{
    struct worker *me = arg;
    int order;
    while (take(me->shop, &order)) {
        me->hours += hours_for(order);
        me->done++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int workers = argc > 1 ? atoi(argv[1]) : 1;
    int orders = argc > 2 ? atoi(argv[2]) : 10;
    if (workers < 1 || workers > MAX_WORKERS)
        return 2;
    static struct workshop shop = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };
    static struct worker all[MAX_WORKERS];
    pthread_t ids[MAX_WORKERS];
    for (int i = 0; i < workers; i++) {
        all[i].shop = &shop;
        pthread_create(&ids[i], NULL, work, &all[i]);
    }
    for (int i = 0; i < orders; i++)
        put(&shop, i * 13 % 101 + 1);
    close_shop(&shop);
    int done = 0;
    long hours = 0;
    for (int i = 0; i < workers; i++) {
        pthread_join(ids[i], NULL);
        done += all[i].done;
        hours += all[i].hours;
    }
    printf("%d orders done in %ld hours\n", done, hours);
    return 0;
}
