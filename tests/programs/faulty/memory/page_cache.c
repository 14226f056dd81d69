// A cache of computed pages that drops the page used longest ago; a hit is not noted as a use, so that a page still held may be dropped and its block given to another.
// fails: output
// run: 3 1,2 1,3 1,4
// good: 4 1,2 1,3 1,4
// good: 3 1,2 3,1 2,3
// good: 2 1,2 3,4 5,6
// repair:             return c->pages[i]->used = ++c->clock, c->pages[i];
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAGES 16
#define PAGE_WORDS 24

struct page {
    int number;
    unsigned used;
    unsigned words[PAGE_WORDS];
};

struct cache {
    int capacity, count;
    unsigned clock;
    struct page *pages[MAX_PAGES];
    int loads, drops;
};

static struct page *load_page(int number)
{
    struct page *p = malloc(sizeof *p);
    if (!p)
        exit(2);
    unsigned x = 2463534242u + (unsigned)number * 7919u;
    for (int i = 0; i < PAGE_WORDS; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        p->words[i] = x % 1000;
    }
    p->number = number;
    return p;
}

static void drop_oldest(struct cache *c)
{
    int oldest = 0;
    for (int i = 1; i < c->count; i++)
        if (c->pages[i]->used < c->pages[oldest]->used)
            oldest = i;
    free(c->pages[oldest]);
    c->pages[oldest] = c->pages[--c->count];
    c->drops++;
}

static struct page *get(struct cache *c, int number)
{
    for (int i = 0; i < c->count; i++) {
        if (c->pages[i]->number == number)
            return c->pages[i]; /* BUG */
    }
    if (c->count == c->capacity)
        drop_oldest(c);
    struct page *p = load_page(number);
    p->used = ++c->clock;
    c->pages[c->count++] = p;
    c->loads++;
    return p;
}

static int differences(const struct page *a, const struct page *b)
{
    int n = 0;
    for (int i = 0; i < PAGE_WORDS; i++)
        n += a->words[i] != b->words[i];
    return n;
}

static void compare(struct cache *c, int first, int second)
{
    struct page *a = get(c, first);
    struct page *b = get(c, second);
    printf("pages %d and %d: %d words differ\n", first, second, differences(a, b));
}

int main(int argc, char **argv)
{
    struct cache c;
    memset(&c, 0, sizeof c);
    c.capacity = argc > 1 ? atoi(argv[1]) : 4;
    if (c.capacity < 2 || c.capacity > MAX_PAGES)
        return 2;
    for (int i = 2; i < argc; i++) {
        int first, second;
        if (sscanf(argv[i], "%d,%d", &first, &second) == 2)
            compare(&c, first, second);
    }
    printf("%d pages kept\n", c.count);
    while (c.count > 0)
        free(c.pages[--c.count]);
    return 0;
}
