// A wrong constant: feet become metres by a factor with two digits swapped.
// fails: output
// slice: thin
// repair: define("ft", 0.3048);
#include <stdio.h>
#include <string.h>

struct unit {
    char name[8];
    double metres;
};

static struct unit units[4];
static int used;

static void define(const char *name, double metres) {
    struct unit *unit = &units[used++];
    strcpy(unit->name, name);
    unit->metres = metres;
}

static double metres(double value, const char *name) {
    for (int i = 0; i < used; i++)
        if (!strcmp(units[i].name, name))
            return value * units[i].metres;
    return -1;
}

struct leg {
    double length;
    const char *unit;
};

static double total(const struct leg *legs, int count) {
    double all = 0;
    for (int i = 0; i < count; i++)
        all += metres(legs[i].length, legs[i].unit);
    return all;
}

int main(void) {
    define("km", 1000.0);
    define("mi", 1609.344); /* NOT */
    define("ft", 0.3084); /* BUG */
    struct leg flight[] = {{1.5, "km"}, {2000, "ft"}};
    struct leg walk[] = {{0.5, "mi"}, {0.25, "km"}};
    printf("walk %.1f m\n", total(walk, 2));
    printf("flight %.1f m\n", total(flight, 2));
    return 0;
}
