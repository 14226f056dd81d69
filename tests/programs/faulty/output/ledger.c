// A bank's ledger with transactions and interest; a transaction that is called off leaves its entries in the journal, and the next one that is called off undoes them again.
// fails: output
// run: open:ann:900 open:bob:400 begin move:ann:bob:150 move:bob:ann:60 abort pay:ann:75 take:bob:120 begin move:bob:ann:100 pay:ann:9 abort month move:ann:bob:30 month list
// good: open:ann:900 open:bob:400 begin move:ann:bob:150 move:bob:ann:60 commit pay:ann:75 begin move:bob:ann:300 abort month list
// good: open:x:50 begin move:x:y:10 take:x:5 abort begin pay:x:30 take:x:20 commit begin take:x:15 abort month month list
// good: open:ann:900 open:bob:10 take:bob:40 begin take:bob:5 pay:ann:100 abort month list
// repair: bank->open_entries = 0; bank->in_transaction = 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ACCOUNTS 16
#define MAX_ENTRIES 128

struct account {
    char name[16];
    long cents;
    long interest; /* hundredths of a cent */
    int movements;
};

/* One change of an account within a transaction. */
struct entry {
    struct account *account;
    long amount;
};

struct bank {
    struct account accounts[MAX_ACCOUNTS];
    int count;
    struct entry journal[MAX_ENTRIES];
    int open_entries;
    int in_transaction;
    int months;
    int aborted;
    int committed;
    int refused;
};

static struct account *find(struct bank *bank, const char *name)
{
    for (int i = 0; i < bank->count; i++)
        if (strcmp(bank->accounts[i].name, name) == 0)
            return &bank->accounts[i];
    return NULL;
}

static struct account *open_account(struct bank *bank, const char *name, long amount)
{
    if (bank->count == MAX_ACCOUNTS || find(bank, name)) {
        bank->refused++;
        return NULL;
    }
    struct account *a = &bank->accounts[bank->count++];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->cents = amount * 100;
    return a;
}

static void book(struct bank *bank, struct account *a, long amount)
{
    a->cents += amount;
    a->movements++;
    if (bank->in_transaction) {
        if (bank->open_entries == MAX_ENTRIES) {
            fprintf(stderr, "ledger: journal full\n");
            exit(2);
        }
        bank->journal[bank->open_entries].account = a;
        bank->journal[bank->open_entries].amount = amount;
        bank->open_entries++;
    }
}

static int covered(const struct account *a, long amount)
{
    return a->cents - amount >= -10000;
}

static void deposit(struct bank *bank, const char *name, long amount)
{
    struct account *a = find(bank, name);
    if (a)
        book(bank, a, amount * 100);
    else
        bank->refused++;
}

static void withdraw(struct bank *bank, const char *name, long amount)
{
    struct account *a = find(bank, name);
    if (a && covered(a, amount * 100))
        book(bank, a, -amount * 100);
    else
        bank->refused++;
}

static void transfer(struct bank *bank, const char *from, const char *to, long amount)
{
    struct account *a = find(bank, from), *b = find(bank, to);
    if (!a || !b || !covered(a, amount * 100)) {
        bank->refused++;
        return;
    }
    book(bank, a, -amount * 100);
    book(bank, b, amount * 100);
}

static void begin(struct bank *bank)
{
    if (bank->in_transaction) {
        bank->refused++;
        return;
    }
    bank->in_transaction = 1;
}

static void commit(struct bank *bank)
{
    if (!bank->in_transaction) {
        bank->refused++;
        return;
    }
    bank->in_transaction = 0;
    bank->open_entries = 0;
    bank->committed++;
}

static void call_off(struct bank *bank)
{
    if (!bank->in_transaction) {
        bank->refused++;
        return;
    }
    for (int i = bank->open_entries - 1; i >= 0; i--) {
        struct entry *e = &bank->journal[i];
        e->account->cents -= e->amount;
        e->account->movements--;
    }
    bank->in_transaction = 0; /* BUG */
    bank->aborted++;
}

/* Two per cent a year for what is there, nine for what is owed. */
static void end_month(struct bank *bank)
{
    bank->months++;
    for (int i = 0; i < bank->count; i++) {
        struct account *a = &bank->accounts[i];
        long rate = a->cents >= 0 ? 2 : 9;
        a->interest += a->cents * rate / 12;
        long whole = a->interest / 100;
        a->cents += whole;
        a->interest -= whole * 100;
        if (a->movements > 3)
            a->cents -= 25 * (a->movements - 3);
        a->movements = 0;
    }
}

static void list(const struct bank *bank)
{
    long sum = 0;
    for (int i = 0; i < bank->count; i++) {
        const struct account *a = &bank->accounts[i];
        printf("%-8s %s%6ld.%02ld\n", a->name, a->cents < 0 ? "-" : " ", labs(a->cents) / 100, labs(a->cents) % 100);
        sum += a->cents;
    }
    printf("%d accounts, %ld cents in all after %d months\n", bank->count, sum, bank->months);
    printf("%d committed, %d called off, %d refused\n", bank->committed, bank->aborted, bank->refused);
}

static void carry_out(struct bank *bank, const char *order)
{
    char copy[80], *words[4] = {"", "", "0", "0"};
    int n = 0;

    snprintf(copy, sizeof copy, "%s", order);
    for (char *w = strtok(copy, ":"); w && n < 4; w = strtok(NULL, ":"))
        words[n++] = w;
    if (strcmp(words[0], "open") == 0)
        open_account(bank, words[1], atol(words[2]));
    else if (strcmp(words[0], "pay") == 0)
        deposit(bank, words[1], atol(words[2]));
    else if (strcmp(words[0], "take") == 0)
        withdraw(bank, words[1], atol(words[2]));
    else if (strcmp(words[0], "move") == 0)
        transfer(bank, words[1], words[2], atol(words[3]));
    else if (strcmp(words[0], "begin") == 0)
        begin(bank);
    else if (strcmp(words[0], "commit") == 0)
        commit(bank);
    else if (strcmp(words[0], "abort") == 0)
        call_off(bank);
    else if (strcmp(words[0], "month") == 0)
        end_month(bank);
    else if (strcmp(words[0], "list") == 0)
        list(bank);
    else {
        fprintf(stderr, "ledger: unknown order %s\n", order);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct bank bank;

    for (int i = 1; i < argc; i++)
        carry_out(&bank, argv[i]);
    return 0;
}
