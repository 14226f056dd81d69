// Copies a longer string into a block than it has room for, and reads it again.
// finds: write behind 0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user {
    char *name;
    int id;
};

static void rename_to(struct user *user, const char *name) {
    strcpy(user->name, name); /* HERE */
}

int main(int argc, char **argv) {
    struct user user = {malloc(12), argc};
    rename_to(&user, argc > 5 ? argv[1] : "a long name");
    rename_to(&user, argc > 5 ? argv[1] : "a longer name");
    printf("%s %d\n", user.name, user.id);
    free(user.name);
    return 0;
}
