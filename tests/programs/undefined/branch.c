// A member that nothing has set decides an `if`.
// finds: branch heap

#include <stdio.h>
#include <stdlib.h>

struct entry {
    int kind;
    int flags;
};

int main(void) {
    struct entry *entry = malloc(sizeof *entry);
    entry->kind = 1;
    if (entry->flags > 7) /* HERE */
        puts("many");
    puts("done");
    free(entry);
    return 0;
}
