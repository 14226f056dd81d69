// Check, then act: each access of the account has the lock, but between the check and the withdrawal nobody has it.
#include "rare.h"

int balance = 100;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int read_balance(void)
{
    pthread_mutex_lock(&lock);
    int value = balance;
    pthread_mutex_unlock(&lock);
    return value;
}

static void withdraw(int amount)
{
    pthread_mutex_lock(&lock);
    balance -= amount;
    pthread_mutex_unlock(&lock);
}

static void *pay(void *unused)
{
    work(1000);
    if (read_balance() >= 80)
        withdraw(80);
    return unused;
}

int main(void)
{
    run_two(pay, pay);
    assert(balance >= 0);
    return 0;
}
