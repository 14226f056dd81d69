// Writes invoices with discounts and tax from a list of deliveries; prices are cut down to cents instead of rounded to them.
// fails: output
// run: mill:flour:120:1.25 mill:yeast:40:0.29 cafe:beans:12:18.40 cafe:cups:300:0.15 mill:salt:15:1.10 cafe:sugar:50:1.13 bar:rum:9:22.75
// good: mill:flour:120:1.25 mill:yeast:40:0.30 cafe:beans:12:18.50 cafe:cups:300:0.15 mill:salt:15:1.20
// good: a:nails:1000:0.03 a:planks:24:7.95 b:glue:3:4.50 a:nails:-200:0.03
// good: shop:tea:5:3.99 shop:milk:30:0.89 inn:tea:2:3.99
// repair: return (long)(value * 100 + 0.5);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CUSTOMERS 16
#define MAX_LINES 64
#define TAX 19 /* per cent */

struct line {
    char item[16];
    int pieces;
    long price; /* cents for one piece */
};

struct customer {
    char name[16];
    struct line lines[MAX_LINES];
    int count;
};

struct sums {
    long net;
    long discount;
    long tax;
};

static struct customer customers[MAX_CUSTOMERS];
static int customer_count;

static void die(const char *what, const char *which)
{
    fprintf(stderr, "invoices: %s: %s\n", what, which);
    exit(2);
}

static struct customer *customer(const char *name)
{
    for (int i = 0; i < customer_count; i++)
        if (strcmp(customers[i].name, name) == 0)
            return &customers[i];
    if (customer_count == MAX_CUSTOMERS)
        die("too many customers", name);
    struct customer *c = &customers[customer_count++];
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

static long to_cents(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || value < 0)
        die("not a price", text);
    return (long)(value * 100); /* BUG */
}

/* Deliveries of the same item at the same price go into one line. Returned pieces count below zero. */
static void add_delivery(const char *text)
{
    char name[16], item[16], price[16];
    int pieces;

    if (sscanf(text, "%15[^:]:%15[^:]:%d:%15s", name, item, &pieces, price) != 4)
        die("not understood", text);
    struct customer *c = customer(name);
    long cents = to_cents(price);
    for (int i = 0; i < c->count; i++) {
        struct line *l = &c->lines[i];
        if (strcmp(l->item, item) == 0 && l->price == cents) {
            l->pieces += pieces;
            return;
        }
    }
    if (c->count == MAX_LINES)
        die("invoice too long", name);
    struct line *l = &c->lines[c->count++];
    snprintf(l->item, sizeof l->item, "%s", item);
    l->pieces = pieces;
    l->price = cents;
}

static long rounded_share(long amount, long per_thousand)
{
    long t = amount * per_thousand;
    return t >= 0 ? (t + 500) / 1000 : (t - 500) / 1000;
}

/* In thousandths. */
static long discount_for(long net)
{
    if (net >= 50000)
        return 50;
    if (net >= 20000)
        return 30;
    if (net >= 10000)
        return 15;
    return 0;
}

static struct sums add_up(const struct customer *c)
{
    struct sums s = {0, 0, 0};

    for (int i = 0; i < c->count; i++) {
        const struct line *l = &c->lines[i];
        long amount = l->pieces * l->price;
        if (l->pieces >= 100)
            amount -= rounded_share(amount, 20);
        s.net += amount;
    }
    s.discount = rounded_share(s.net, discount_for(s.net));
    s.tax = rounded_share(s.net - s.discount, TAX * 10);
    return s;
}

static long total(const struct sums *s)
{
    return s->net - s->discount + s->tax;
}

static void print_amount(const char *what, long cents)
{
    printf("  %-14s %s%6ld.%02ld\n", what, cents < 0 ? "-" : " ", labs(cents) / 100, labs(cents) % 100);
}

static void print_invoice(const struct customer *c, int number)
{
    struct sums s = add_up(c);
    int pieces = 0;

    for (int i = 0; i < c->count; i++)
        pieces += c->lines[i].pieces;
    printf("Invoice %d for %s: %d lines, %d pieces\n", number, c->name, c->count, pieces);
    print_amount("net", s.net);
    if (s.discount)
        print_amount("discount", -s.discount);
    print_amount("tax", s.tax);
    print_amount("to pay", total(&s));
}

static int by_total(const void *a, const void *b)
{
    const struct customer *const *x = a, *const *y = b;
    struct sums s = add_up(*x), t = add_up(*y);
    long p = total(&s), q = total(&t);
    if (p != q)
        return p < q ? 1 : -1;
    return strcmp((*x)->name, (*y)->name);
}

static void print_summary(void)
{
    const struct customer *order[MAX_CUSTOMERS];
    long sum = 0;

    for (int i = 0; i < customer_count; i++)
        order[i] = &customers[i];
    qsort(order, customer_count, sizeof order[0], by_total);
    printf("Largest first:");
    for (int i = 0; i < customer_count; i++) {
        struct sums s = add_up(order[i]);
        printf(" %s", order[i]->name);
        sum += total(&s);
    }
    printf("\n");
    print_amount("all", sum);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        add_delivery(argv[i]);
    for (int i = 0; i < customer_count; i++)
        print_invoice(&customers[i], 101 + i);
    print_summary();
    return 0;
}
