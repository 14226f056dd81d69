// A null pointer: a name that is not in the table yields one, and nobody looks.
// fails: SIGSEGV
// slice: thin
// repair: return &colours[0];
#include <stdio.h>
#include <string.h>

struct colour {
    const char *name;
    int red, green, blue;
};

static struct colour colours[] = {{"black", 0, 0, 0}, {"red", 255, 0, 0}, {"white", 255, 255, 255}};
static int looked;

static struct colour *colour(const char *name) {
    looked++; /* NOT */
    for (int i = 0; i < 3; i++)
        if (!strcmp(colours[i].name, name))
            return &colours[i];
    return NULL; /* BUG */
}

static int brightness(const struct colour *colour) {
    return (colour->red + colour->green + colour->blue) / 3;
}

int main(void) {
    static const char *const names[] = {"white", "red", "orange"};
    struct colour *found[3];
    for (int i = 0; i < 3; i++)
        found[i] = colour(names[i]);
    for (int i = 0; i < 3; i++)
        printf("%s %d\n", names[i], brightness(found[i]));
    return looked == 3 ? 0 : 1;
}
