// Works out bills from readings of meters that start anew at 10000; the tariff's higher step of one customer is still in force for the next one, as it is not set back.
// fails: output
// run: anna 9800 150 bert 100 450 carl 20 90
// good: anna 100 150 bert 100 450
// good: carl 20 90 dora 9900 20
// good: anna 9800 150
// repair:     long total = BASE; t->step = 0;
#include <stdio.h>
#include <stdlib.h>

#define TURN 10000
#define BASE 500

struct tariff {
    int step;
    int prices[3];
    int limits[2];
};

struct sums {
    long money, units;
    int bills;
};

static int used(int before, int now)
{
    return now >= before ? now - before : now + TURN - before;
}

static long price(struct tariff *t, int unit)
{
    while (t->step < 2 && unit >= t->limits[t->step])
        t->step++;
    return t->prices[t->step];
}

static long bill(struct tariff *t, int units)
{
    long total = BASE; /* BUG */
    for (int unit = 0; unit < units; unit++)
        total += price(t, unit);
    return total;
}

static void print_money(const char *what, long cents)
{
    printf("%s %ld.%02ld", what, cents / 100, cents % 100);
}

int main(int argc, char **argv)
{
    struct tariff t = { 0, { 31, 27, 22 }, { 100, 300 } };
    struct sums sums = { 0, 0, 0 };
    for (int i = 1; i + 2 < argc; i += 3) {
        int units = used(atoi(argv[i + 1]), atoi(argv[i + 2]));
        long money = bill(&t, units);
        printf("%-8s %5d units", argv[i], units);
        print_money(" for", money);
        printf("\n");
        sums.money += money;
        sums.units += units;
        sums.bills++;
    }
    printf("%d bills for %ld units", sums.bills, sums.units);
    print_money(",", sums.money);
    printf("\n");
    return 0;
}
