// Makes a list of the digits of its argument and adds them up; what is no digit is a bug.
#include <stdio.h>
#include <stdlib.h>

struct item {
    int value;
    struct item *next;
};

static int total;

static int weigh(int n) {
    if (n > 40) // the runs part here first
        return n * 2;
    return n;
}

static struct item *make(const char *text) {
    struct item *first = NULL;
    for (const char *p = text; *p; p++) {
        struct item *one = malloc(sizeof *one);
        one->value = *p - '0'; // the first value that differs
        one->next = first;
        first = one;
    }
    return first;
}

int main(int argc, char **argv) {
    char name[64];
    snprintf(name, sizeof name, "%d arguments", argc);
    struct item *list = make(argc > 1 ? argv[1] : "");
    for (struct item *at = list; at; at = at->next) {
        int w = weigh(at->value);
        total += w;
    }
    printf("%s: %d\n", name, total);
    if (total > 100) // they part for good here
        *(volatile int *)0 = total;
    return 0;
}
