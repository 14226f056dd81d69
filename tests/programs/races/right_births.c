// Threads made and joined, one after the other on the same stacks, detached ones, and memory that goes from one to the next.
#include "races.h"

int values[8], last;
sem_t over;

static void *fill(void *number)
{
    char buffer[256];
    memset(buffer, (int)(intptr_t)number, sizeof buffer);
    values[(intptr_t)number] = buffer[100];
    char *block = malloc(100);
    memset(block, 1, 100);
    return block;
}

static void *detached(void *unused)
{
    last++;
    sem_post(&over);
    return unused;
}

int main(void)
{
    int sum = 0;
    for (intptr_t i = 0; i < 8; i++) {
        pthread_t thread;
        void *block;
        pthread_create(&thread, NULL, fill, (void *)i);
        pthread_join(thread, &block);
        sum += values[i] + ((char *)block)[3];
        free(block);
    }
    sem_init(&over, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, &attributes, detached, NULL);
        sem_wait(&over);
    }
    return last != 4 || sum != 36;
}
