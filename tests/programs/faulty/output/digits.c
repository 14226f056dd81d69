// Reckons with numbers of any length; the carry of one row of a product is not set back before the next row.
// fails: output
// run: power 98765 9 factorial 30 binomial 60 30
// good: factorial 40 fibonacci 150 power 2 20
// good: power 3 16 binomial 40 17
// good: power 100 12 product 123456789012 9000 factorial 12
// good: product 10002 30004 fibonacci 60
// repair: unsigned x = a->parts[i]; carry = 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE 10000u
#define MAX_PARTS 128

/* The parts are four decimal digits each, the last ones first. */
struct big {
    unsigned parts[MAX_PARTS];
    int count;
};

static void overflow(void)
{
    fprintf(stderr, "digits: number too long\n");
    exit(2);
}

static void trim(struct big *n)
{
    while (n->count > 0 && n->parts[n->count - 1] == 0)
        n->count--;
}

static struct big from_small(unsigned long v)
{
    struct big n = {.count = 0};
    while (v > 0) {
        n.parts[n.count++] = v % BASE;
        v /= BASE;
    }
    return n;
}

static struct big from_text(const char *text)
{
    struct big n = {.count = 0};
    int end = (int)strlen(text);

    if (strspn(text, "0123456789") != (size_t)end || end == 0 || end > 4 * MAX_PARTS) {
        fprintf(stderr, "digits: no number: %s\n", text);
        exit(2);
    }
    while (end > 0) {
        int start = end > 4 ? end - 4 : 0;
        unsigned part = 0;
        for (int i = start; i < end; i++)
            part = part * 10 + (text[i] - '0');
        n.parts[n.count++] = part;
        end = start;
    }
    trim(&n);
    return n;
}

static struct big add(const struct big *a, const struct big *b)
{
    struct big sum = {.count = a->count > b->count ? a->count : b->count};
    unsigned carry = 0;

    for (int i = 0; i < sum.count; i++) {
        unsigned t = carry;
        t += i < a->count ? a->parts[i] : 0;
        t += i < b->count ? b->parts[i] : 0;
        sum.parts[i] = t % BASE;
        carry = t / BASE;
    }
    if (carry) {
        if (sum.count == MAX_PARTS)
            overflow();
        sum.parts[sum.count++] = carry;
    }
    return sum;
}

/* Row by row, as on paper. */
static struct big multiply(const struct big *a, const struct big *b)
{
    struct big product = {.count = a->count + b->count};
    unsigned carry = 0;

    if (product.count > MAX_PARTS)
        overflow();
    for (int i = 0; i < a->count; i++) {
        unsigned x = a->parts[i]; /* BUG */
        if (x == 0)
            continue;
        for (int k = 0; k < b->count; k++) {
            unsigned t = product.parts[i + k] + x * b->parts[k] + carry;
            product.parts[i + k] = t % BASE;
            carry = t / BASE;
        }
        product.parts[i + b->count] += carry;
    }
    trim(&product);
    return product;
}

static unsigned divide_small(struct big *n, unsigned by)
{
    unsigned rest = 0;
    for (int i = n->count - 1; i >= 0; i--) {
        unsigned t = rest * BASE + n->parts[i];
        n->parts[i] = t / by;
        rest = t % by;
    }
    trim(n);
    return rest;
}

static struct big power(const struct big *base, unsigned exponent)
{
    struct big result = from_small(1), square = *base;

    while (exponent > 0) {
        if (exponent & 1)
            result = multiply(&result, &square);
        exponent >>= 1;
        if (exponent)
            square = multiply(&square, &square);
    }
    return result;
}

static struct big factorial(unsigned n)
{
    struct big result = from_small(1);
    for (unsigned i = 2; i <= n; i++) {
        struct big factor = from_small(i);
        result = multiply(&factor, &result);
    }
    return result;
}

static struct big fibonacci(unsigned n)
{
    struct big a = from_small(0), b = from_small(1);
    while (n-- > 0) {
        struct big next = add(&a, &b);
        a = b;
        b = next;
    }
    return a;
}

static struct big binomial(unsigned n, unsigned k)
{
    struct big result = from_small(1);
    for (unsigned i = 1; i <= k; i++) {
        struct big factor = from_small(n - k + i);
        result = multiply(&factor, &result);
        divide_small(&result, i);
    }
    return result;
}

static unsigned digit_sum(const struct big *n)
{
    unsigned sum = 0;
    for (int i = 0; i < n->count; i++)
        for (unsigned p = n->parts[i]; p > 0; p /= 10)
            sum += p % 10;
    return sum;
}

static void print(const char *what, const struct big *n)
{
    printf("%s = ", what);
    if (n->count == 0)
        printf("0");
    for (int i = n->count - 1; i >= 0; i--)
        printf(i == n->count - 1 ? "%u" : "%04u", n->parts[i]);
    printf(" (digits add up to %u)\n", digit_sum(n));
}

int main(int argc, char **argv)
{
    char what[80];
    int i = 1;

    while (i + 1 < argc) {
        const char *op = argv[i];
        struct big result;
        int two = strcmp(op, "power") == 0 || strcmp(op, "binomial") == 0 || strcmp(op, "product") == 0;

        if (two && i + 2 >= argc)
            break;
        if (strcmp(op, "factorial") == 0) {
            result = factorial(atoi(argv[i + 1]));
        } else if (strcmp(op, "fibonacci") == 0) {
            result = fibonacci(atoi(argv[i + 1]));
        } else if (strcmp(op, "binomial") == 0) {
            result = binomial(atoi(argv[i + 1]), atoi(argv[i + 2]));
        } else if (strcmp(op, "product") == 0) {
            struct big a = from_text(argv[i + 2]), b = from_text(argv[i + 1]);
            result = multiply(&a, &b);
        } else if (strcmp(op, "power") == 0) {
            struct big base = from_text(argv[i + 1]);
            result = power(&base, atoi(argv[i + 2]));
        } else {
            fprintf(stderr, "digits: cannot %s\n", op);
            return 2;
        }
        snprintf(what, sizeof what, two ? "%s %s %s" : "%s %s", op, argv[i + 1], two ? argv[i + 2] : "");
        print(what, &result);
        i += two ? 3 : 2;
    }
    return 0;
}
