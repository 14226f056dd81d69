/* What is copied is longer than its buffer, and lands in the block behind it. */
#include <stdlib.h>
#include <string.h>

struct entry {
    char name[16];
    const char *text;
};

static void fill(struct entry *entry, const char *name)
{
    for (size_t i = 0; name[i]; i++)
        entry->name[i] = name[i]; /* CULPRIT */
}

int main(void)
{
    struct entry *entry = malloc(sizeof *entry);
    entry->text = "text";
    fill(entry, "AAAAAAAAAAAAAAAAAAAAAAAA");
    return entry->text[0];
}
