// Has a shell run a command, by a child that has its memory (posix_spawn), in the middle of its work.
#include <stdio.h>
#include <stdlib.h>

struct item {
    int number;
    char name[20];
    double price;
};

static struct item *items;
static int table[8];

static int work(int which) {
    return items[which].number;
}

int main(int count, char **arguments) {
    const char *city = "Lisbon";
    long squares[6];
    items = calloc(5, sizeof *items);
    for (int i = 0; i < 5; i++) {
        items[i].number = 100 + i;
        snprintf(items[i].name, sizeof items[i].name, "thing %d", i);
        items[i].price = i * 1.5;
        table[i] = i * i * i;
        squares[i] = i * i;
    }
    squares[5] = 25;
    int status = system("exit 3");
    printf("%d %d\n", work(1), status);
    return 0;
}
