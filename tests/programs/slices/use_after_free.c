// A use after free: a listener that was freed is called, when its memory is a message already.
// fails: SIGSEGV
// slice: full
// repair: (void)left;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listener {
    void (*heard)(struct listener *, const char *);
    char name[24];
};

static struct listener *all[4];
static int count, said;

static void print(struct listener *listener, const char *text) {
    printf("%s hears %s\n", listener->name, text);
}

static struct listener *listen_as(const char *name) {
    struct listener *listener = malloc(sizeof *listener);
    listener->heard = print;
    strcpy(listener->name, name);
    all[count++] = listener;
    return listener;
}

static void leave(struct listener *left) {
    printf("%s leaves\n", left->name);
    free(left); /* BUG */
}

static void say(const char *text) {
    char *copy = malloc(sizeof(struct listener));
    strcpy(copy, text);
    for (int i = 0; i < count; i++)
        all[i]->heard(all[i], copy);
    said++; /* NOT */
    free(copy);
}

int main(void) {
    struct listener *ada = listen_as("Ada");
    listen_as("Emmy");
    say("hello");
    leave(ada);
    say("goodbye to all of you");
    return 0;
}
