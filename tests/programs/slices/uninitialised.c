// An uninitialised variable: a new account has the balance that an earlier block of memory leaves there.
// fails: output
// slice: full
// repair: struct account *account = calloc(1, sizeof *account);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct account {
    char owner[24];
    long balance;
    int visits;
};

static int hash(const char *name) {
    // Its scratch memory is what the next account gets.
    volatile long *scratch = malloc(sizeof(struct account));
    int all = 5381;
    for (int i = 0; i < 5; i++)
        scratch[i] = 1000 + i;
    for (; *name; name++)
        all = all * 33 + *name;
    all += (int)(scratch[0] - scratch[1]);
    free((void *)scratch);
    return all;
}

static struct account *open_account(const char *owner) {
    struct account *account = malloc(sizeof *account); /* BUG */
    strcpy(account->owner, owner);
    account->visits = 0; /* NOT */
    return account;
}

static void pay_in(struct account *account, long amount) {
    account->balance += amount;
    account->visits++; /* NOT */
}

int main(void) {
    int number = hash("Ada");
    struct account *account = open_account("Ada");
    pay_in(account, 50);
    pay_in(account, 25);
    printf("%d: %s visited %d times\n", number, account->owner, account->visits);
    printf("balance %ld\n", account->balance);
    free(account);
    return 0;
}
