/* What people ask about: functions that are called some times, variables that are written by stores and by system calls. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct item {
    const char *name;
    long value;
    struct item *next;
};

static struct item *items;
long total;
static char answer[8] = "nothing";

__attribute__((noinline)) static struct item *add(const char *name, long value)
{
    struct item *item = malloc(sizeof *item);
    item->name = name;
    item->value = value; /* sets the value */

    item->next = items;
    items = item;
    return item;
}

__attribute__((noinline)) static long sum(const struct item *first)
{
    long sum = 0;
    for (const struct item *item = first; item; item = item->next)
        sum += item->value; /* adds one */
    return sum;
}

__attribute__((noinline)) static void change(struct item *item, long value)
{
    item->value = value; /* changes it */
}

int main(void)
{
    int ends[2];
    add("one", 1);
    add("two", 2);
    struct item *third = add("three", 3);
    total = sum(items);
    change(items->next, 40);
    total = sum(items);
    if (pipe(ends) || write(ends[1], "yes", 4) != 4 || answer[0] != 'n')
        return 1;
    if (read(ends[0], answer, 4) != 4)
        return 1;
    printf("%ld %s %ld\n", total, answer, third->value);
    abort();
}
