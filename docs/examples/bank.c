/* Two clerks move money between two accounts, each a hundred times. Sometimes both wait for ever. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct account {
    const char *owner;
    long cents;
    pthread_mutex_t lock;
};

static struct account anna = { "Anna", 100000, PTHREAD_MUTEX_INITIALIZER };
static struct account ben = { "Ben", 100000, PTHREAD_MUTEX_INITIALIZER };

static void move(struct account *from, struct account *to, long cents)
{
    pthread_mutex_lock(&from->lock);
    usleep(1000); /* asks the other branch */
    pthread_mutex_lock(&to->lock);
    from->cents -= cents;
    to->cents += cents;
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
}

static void *clerk(void *unused)
{
    for (int i = 0; i < 100; i++)
        move(&ben, &anna, 7);
    return unused;
}

int main(void)
{
    pthread_t other;
    pthread_create(&other, NULL, clerk, NULL);
    for (int i = 0; i < 100; i++)
        move(&anna, &ben, 5);
    pthread_join(other, NULL);
    printf("%s %ld, %s %ld\n", anna.owner, anna.cents, ben.owner, ben.cents);
    return 0;
}
