// Players' scores in a table with a lock for each; a bonus is worked out from a score that was read in one locked step and is written back in another.
// fails: output
// run: 3 40000
// good: 1 40000
// good: 1 100
// good: 1 7
// repair:         pthread_mutex_lock(&t->bonus); award(t, player, i % 5 + 1); pthread_mutex_unlock(&t->bonus);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAYERS 4
#define MAX_THREADS 8

struct score {
    pthread_mutex_t lock;
    long points;
    int changes;
};

struct table {
    struct score scores[PLAYERS];
    pthread_mutex_t bonus;
    long bonuses;
};

struct game {
    struct table *table;
    int rounds;
};

static long get_points(struct score *s)
{
    pthread_mutex_lock(&s->lock);
    long points = s->points;
    pthread_mutex_unlock(&s->lock);
    return points;
}

static void set_points(struct score *s, long points)
{
    pthread_mutex_lock(&s->lock);
    s->points = points;
    s->changes++;
    pthread_mutex_unlock(&s->lock);
}

static long level_of(long points)
{
    long level = 0;
    while (points > 9) {
        points /= 10;
        level++;
    }
    return level;
}

static void award(struct table *t, int player, long amount)
{
    struct score *s = &t->scores[player];
    long points = get_points(s); /* BUG */
    if (level_of(points) > 12)
        return;
    set_points(s, points + amount); /* BUG */
}

static void *play(void *arg)
{
    struct game *g = arg;
    struct table *t = g->table;
    for (int i = 0; i < g->rounds; i++) {
        int player = i / 8 % PLAYERS;
        award(t, player, i % 5 + 1); /* REPAIR */
    }
    pthread_mutex_lock(&t->bonus);
    t->bonuses += g->rounds;
    pthread_mutex_unlock(&t->bonus);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 100;
    static struct table t;
    if (threads < 1 || threads > MAX_THREADS || rounds < 0)
        return 2;
    pthread_mutex_init(&t.bonus, NULL);
    for (int i = 0; i < PLAYERS; i++)
        pthread_mutex_init(&t.scores[i].lock, NULL);
    pthread_t ids[MAX_THREADS];
    struct game game = { &t, rounds };
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, play, &game);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < PLAYERS; i++)
        printf("player %d: %ld points in %d changes\n", i, t.scores[i].points, t.scores[i].changes);
    printf("%ld bonuses\n", t.bonuses);
    return 0;
}
