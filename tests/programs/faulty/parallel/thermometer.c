// A sensor thread books readings as a sum and a number while others ask for both; the sensor forgets the lock that the readers take.
// fails: exit 3
// run: 2 300000
// good: 0 1000
// good: 0 300000
// good: 0 1
// repair:         pthread_mutex_lock(&s->lock), book(s, VALUE), pthread_mutex_unlock(&s->lock);
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUE 21
#define MAX_READERS 4

struct station {
    pthread_mutex_t lock;
    volatile long sum;
    volatile long number;
    volatile int stopped;
    long rounds;
};

struct reader {
    struct station *station;
    long asked, wrong;
};

static void book(struct station *s, long value)
{
    s->sum += value; /* BUG */
    s->number++; /* BUG */
}

static void read_pair(struct station *s, long *sum, long *number)
{
    pthread_mutex_lock(&s->lock);
    *sum = s->sum;
    *number = s->number;
    pthread_mutex_unlock(&s->lock);
}

static void *sense(void *arg)
{
    struct station *s = arg;
    for (long i = 0; i < s->rounds; i++)
        book(s, VALUE); /* REPAIR */
    return NULL;
}

static int is_stopped(struct station *s)
{
    pthread_mutex_lock(&s->lock);
    int stopped = s->stopped;
    pthread_mutex_unlock(&s->lock);
    return stopped;
}

static void *ask(void *arg)
{
    struct reader *r = arg;
    while (!is_stopped(r->station)) {
        long sum, number;
        read_pair(r->station, &sum, &number);
        r->asked++;
        if (sum != number * VALUE)
            r->wrong++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int readers = argc > 1 ? atoi(argv[1]) : 1;
    static struct station s;
    s.rounds = argc > 2 ? atol(argv[2]) : 1000;
    if (readers < 0 || readers > MAX_READERS)
        return 2;
    pthread_mutex_init(&s.lock, NULL);
    pthread_t sensor, ids[MAX_READERS];
    struct reader data[MAX_READERS];
    for (int i = 0; i < readers; i++) {
        data[i] = (struct reader){ &s, 0, 0 };
        pthread_create(&ids[i], NULL, ask, &data[i]);
    }
    pthread_create(&sensor, NULL, sense, &s);
    pthread_join(sensor, NULL);
    pthread_mutex_lock(&s.lock);
    s.stopped = 1;
    pthread_mutex_unlock(&s.lock);
    long wrong = 0;
    for (int i = 0; i < readers; i++) {
        pthread_join(ids[i], NULL);
        wrong += data[i].wrong;
    }
    printf("%ld readings, sum %ld\n", s.number, s.sum);
    if (wrong > 0) {
        printf("some pairs did not agree\n");
        return 3;
    }
    return 0;
}
