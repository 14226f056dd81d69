// A heap overflow: a long name runs over its block into the next record, whose pointer is then letters.
// fails: SIGSEGV
// slice: thin
// repair: strncpy(person->name, name, sizeof person->name - 1);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct person {
    char name[16];
};

struct town {
    const char *name;
    int people;
};

struct town *capital;

static struct person *person_named(const char *name) {
    struct person *person = malloc(sizeof *person);
    strcpy(person->name, name); /* BUG */
    return person;
}

static struct town *town_named(const char *name) {
    struct town *town = malloc(sizeof *town);
    town->name = name;
    town->people = 0;
    return town;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"Ada Lovelace", "Wolfgang Amadeus Theophilus Mozart-Weber"};
    struct person *first = person_named(names[0]);
    struct person *second = person_named("Emmy Noether");
    capital = town_named("Salzburg");
    puts(second->name);
    free(second);
    second = person_named(names[argc]);
    capital->people += 2; /* NOT */
    printf("%s, %s\n", first->name, second->name);
    printf("%c\n", capital->name[argv[0] ? 0 : 1]);
    return 0;
}
