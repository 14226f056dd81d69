// A wrong lock: sales take the lock of the day's list, not that of the stock. A lock makes no value, so that it is in no slice: what the
// line that it should protect took, from another thread than in the right order, is.
// fails: output
// slice: thin
// repair: pthread_mutex_t *lock = &stock.lock;
// flags: -pthread
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

struct guarded {
    pthread_mutex_t lock;
    int value;
};

static struct guarded stock = {PTHREAD_MUTEX_INITIALIZER, 50}, list = {PTHREAD_MUTEX_INITIALIZER, 0};
static sem_t counting;

static void wait_for_paper(void) {
    struct timespec time = {0, 200000000};
    sem_post(&counting);
    nanosleep(&time, NULL);
}

static void *count_stock(void *unused) {
    pthread_mutex_lock(&stock.lock);
    int counted = stock.value;
    wait_for_paper();
    stock.value = counted + 10; /* BUG */
    pthread_mutex_unlock(&stock.lock);
    return unused;
}

static void sell(int pieces) {
    pthread_mutex_t *lock = &list.lock; /* REPAIR */
    pthread_mutex_lock(lock);
    stock.value -= pieces;
    list.value++; /* NOT */
    pthread_mutex_unlock(lock);
}

int main(void) {
    pthread_t thread;
    sem_init(&counting, 0, 0);
    pthread_create(&thread, NULL, count_stock, NULL);
    sem_wait(&counting);
    sell(7);
    pthread_join(thread, NULL);
    printf("sales %d\n", list.value);
    printf("stock %d\n", stock.value);
    return 0;
}
