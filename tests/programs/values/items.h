// What a program has prepared, in each part of its memory.
#include <stdio.h>
#include <stdlib.h>

struct item {
    int number;
    char name[20];
    double price;
};

static struct item *items;
static int table[8];

static void prepare(long squares[6]) {
    items = calloc(5, sizeof *items);
    for (int i = 0; i < 5; i++) {
        items[i].number = 100 + i;
        snprintf(items[i].name, sizeof items[i].name, "thing %d", i);
        items[i].price = i * 1.5;
        table[i] = i * i * i;
        squares[i] = i * i;
    }
    squares[5] = 25;
}
