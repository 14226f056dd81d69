/* Four counters sell the tickets of one concert. Some seats are sold twice. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define SEATS 2000

static int sold;
static int buyers[SEATS + 4];

static void *counter(void *unused)
{
    while (sold < SEATS) {
        int seat = sold;
        buyers[seat]++;
        sold = seat + 1;
    }
    return unused;
}

int main(void)
{
    pthread_t counters[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&counters[i], NULL, counter, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(counters[i], NULL);
    for (int seat = 0; seat < SEATS; seat++)
        assert(buyers[seat] == 1);
    printf("%d seats sold\n", sold);
    return 0;
}
