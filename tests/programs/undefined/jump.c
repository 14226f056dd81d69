// A function is called by a pointer that is left from what was in the memory before.
// finds: jump heap

#include <stdio.h>
#include <stdlib.h>

struct handler {
    long number;
    long more[5];
    void (*function)(void);
};

static void say(void) { puts("done"); }

int main(void) {
    volatile struct handler *handler = malloc(sizeof *handler);
    handler->function = say;
    free((void *)handler);
    handler = malloc(sizeof *handler);
    handler->number = 2;
    handler->function(); /* HERE */
    free((void *)handler);
    return 0;
}
