// Several counters sell the seats of many shows; whether a seat is free is asked under the lock, but it may be gone when it is taken.
// fails: output
// run: 4 6000
// good: 1 6000
// good: 1 10
// good: 1 50
// repair:         pthread_mutex_lock(&desk); int sold = sell(&c->shows[i], i); pthread_mutex_unlock(&desk);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_COUNTERS 8
#define MAX_SHOWS 8000
#define SEATS 8

struct show {
    pthread_mutex_t lock;
    int left;
    long income;
};

struct counter {
    struct show *shows;
    int count;
    int sold, refused;
};

static pthread_mutex_t desk = PTHREAD_MUTEX_INITIALIZER;
static int opened;

static void open_desk(void)
{
    pthread_mutex_lock(&desk);
    opened++;
    pthread_mutex_unlock(&desk);
}

static int left(struct show *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->left;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static int change(struct show *s, int seats, long money)
{
    pthread_mutex_lock(&s->lock);
    s->left += seats;
    s->income += money;
    int n = s->left;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static int price_of(int number)
{
    int price = 10;
    for (int k = number % 50; k > 0; k /= 3)
        price += k % 3;
    return price;
}

static int sell(struct show *s, int number)
{
    long price = price_of(number);
    if (left(s) <= 0) /* BUG */
        return 0;
    change(s, -1, price); /* BUG */
    return 1;
}

static void *serve(void *arg)
{
    struct counter *c = arg;
    open_desk();
    for (int i = 0; i < c->count;) {
        int sold = sell(&c->shows[i], i); /* REPAIR */
        if (sold) {
            c->sold++;
        } else {
            c->refused++;
            i++;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int counters = argc > 1 ? atoi(argv[1]) : 1;
    int count = argc > 2 ? atoi(argv[2]) : 10;
    if (counters < 1 || counters > MAX_COUNTERS || count < 1 || count > MAX_SHOWS)
        return 2;
    struct show *shows = calloc(count, sizeof *shows);
    if (!shows)
        return 2;
    for (int i = 0; i < count; i++) {
        pthread_mutex_init(&shows[i].lock, NULL);
        shows[i].left = SEATS;
    }
    pthread_t ids[MAX_COUNTERS];
    struct counter data[MAX_COUNTERS];
    for (int i = 0; i < counters; i++) {
        data[i] = (struct counter){ shows, count, 0, 0 };
        pthread_create(&ids[i], NULL, serve, &data[i]);
    }
    int sold = 0, refused = 0, empty = 0;
    long income = 0;
    for (int i = 0; i < counters; i++) {
        pthread_join(ids[i], NULL);
        sold += data[i].sold;
        refused += data[i].refused;
    }
    for (int i = 0; i < count; i++) {
        empty += shows[i].left == 0;
        income += shows[i].income;
    }
    printf("%d seats sold, %d refused, %d of %d shows sold out\n", sold, refused, empty, count);
    printf("income %ld at %d desks\n", income, opened);
    free(shows);
    return 0;
}
