/* stock FILE: prints what the items in FILE are worth, one "name = pieces * cents" a line.
 *
 * It has a real bug, of a kind that is hard to find from a core file: the place that crashes is not the place that is
 * wrong. demo.sh records the crash and looks at it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    int pieces;
    int cents;
    char name[16];
    struct item *next;
};

struct stock {
    struct item *items;
    int count;
};

static char *trim(char *text)
{
    char *end = text + strlen(text);
    while (end > text && strchr(" \n", end[-1]))
        *--end = '\0';
    return text + strspn(text, " ");
}

static void add(struct stock *stock, const char *name, int pieces, int cents)
{
    struct item *item = calloc(1, sizeof *item);
    if (!item)
        exit(2);
    item->pieces = pieces;
    item->cents = cents;
    item->next = stock->items;
    for (size_t i = 0; i <= strlen(name); i++) /* the bug: a name of 16 letters or more runs into `next` */
        item->name[i] = name[i];
    stock->items = item;
    stock->count++;
}

static void parse(struct stock *stock, FILE *file)
{
    char line[256];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        int pieces, cents;
        char *equals = strchr(line, '=');
        if (!equals || sscanf(equals + 1, "%d * %d", &pieces, &cents) != 2) {
            fprintf(stderr, "stock: line %d skipped: not of the form \"name = pieces * cents\"\n", number);
            continue;
        }
        *equals = '\0';
        add(stock, trim(line), pieces, cents);
    }
}

static long worth(const struct item *item)
{
    return (long)item->pieces * item->cents;
}

static long report(const struct stock *stock)
{
    long total = 0;
    for (const struct item *item = stock->items; item; item = item->next) {
        total += worth(item);
        printf("%-16.16s %5d pieces\n", item->name, item->pieces);
    }
    return total;
}

int main(int argc, char **argv)
{
    struct stock stock = { NULL, 0 };
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: stock FILE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(&stock, file);
    fclose(file);
    printf("%d items\n", stock.count);
    long total = report(&stock);
    printf("worth %ld.%02ld in all\n", total / 100, total % 100);
    return 0;
}
