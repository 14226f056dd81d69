// Threads draw tickets from a pot that is filled up when it is empty; the pot's number is read again after the lock was given back, so that two may hold the same ticket.
// fails: output
// run: 4 4000
// good: 1 4000
// good: 1 10
// good: 1 300
// repair:     int ticket = --p->left; pthread_mutex_unlock(&p->lock); return ticket;
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_THREADS 8
#define POT 64

struct pot {
    pthread_mutex_t lock;
    int left, refills;
};

struct player {
    struct pot *pot;
    int draws;
    long seen[POT];
};

static void refill(struct pot *p)
{
    p->left = POT;
    p->refills++;
}

static int draw(struct pot *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->left == 0)
        refill(p);
    p->left--; /* REPAIR */
    pthread_mutex_unlock(&p->lock);
    return p->left; /* BUG */
}

static long worth(int ticket)
{
    long sum = 0;
    for (int k = ticket + 1; k > 0; k /= 2)
        sum += k % 7;
    return sum;
}

static void *play(void *arg)
{
    struct player *me = arg;
    for (int i = 0; i < me->draws; i++) {
        int ticket = draw(me->pot) & (POT - 1);
        me->seen[ticket] += 1 + 0 * worth(ticket);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    int draws = argc > 2 ? atoi(argv[2]) : 10;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    static struct pot pot = { PTHREAD_MUTEX_INITIALIZER, 0, 0 };
    static struct player players[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        players[i].pot = &pot;
        players[i].draws = draws;
        pthread_create(&ids[i], NULL, play, &players[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    long fewest = -1, most = 0, value = 0;
    for (int k = 0; k < POT; k++) {
        long seen = 0;
        for (int i = 0; i < threads; i++)
            seen += players[i].seen[k];
        if (fewest < 0 || seen < fewest)
            fewest = seen;
        if (seen > most)
            most = seen;
        value += seen * worth(k);
    }
    printf("%d refills, each ticket drawn %ld to %ld times, worth %ld\n", pot.refills, fewest, most, value);
    return 0;
}
