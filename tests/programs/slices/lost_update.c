// A lock that is taken too late: a deposit adds to what the balance was before the lock, and the other's is lost.
// fails: output
// slice: thin
// repair: account.balance += amount;
// flags: -pthread
#include <pthread.h>
#include <stdio.h>

struct account {
    pthread_mutex_t lock;
    long balance;
    int deposits;
};

static struct account account = {PTHREAD_MUTEX_INITIALIZER, 100, 0};
// Both have looked at the balance before either pays in: the race is lost each time.
static pthread_barrier_t both;

static void report(const char *who, long amount) {
    fprintf(stderr, "%s %ld\n", who, amount);
    pthread_barrier_wait(&both);
}

static void deposit(const char *who, long amount) {
    long seen = account.balance;
    if (seen < 0)
        amount -= 5;
    report(who, amount);
    pthread_mutex_lock(&account.lock);
    account.balance = seen + amount; /* BUG */
    account.deposits++; /* NOT */
    pthread_mutex_unlock(&account.lock);
}

static void *wages(void *unused) {
    deposit("wages", 2000);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, wages, NULL);
    deposit("wages", 2000);
    pthread_join(thread, NULL);
    printf("%d deposits\n", account.deposits);
    printf("balance %ld\n", account.balance);
    return 0;
}
