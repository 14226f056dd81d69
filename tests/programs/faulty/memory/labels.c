// A pool of short labels in one block, with commands to add and rename; renaming to a label of just the slot's size writes its end into the next slot.
// fails: output
// run: +red +green +blue 1=darkest-of-green 0=very-light-reds?
// good: +red +green +blue 1=dark-green 0=light-red
// good: +red +green 1=a-label-that-is-too-long 5=x
// good: +red +some-long-label-here 0=fifteen-letters
// repair:     if (i < 0 || i >= p->used || n >= SLOT)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT 16
#define FIRST_SLOTS 4

struct pool {
    char *block;
    int used, slots;
    int renamed, refused;
};

static char *slot(struct pool *p, int i)
{
    return p->block + (size_t)i * SLOT;
}

static int grow(struct pool *p)
{
    int slots = p->slots ? 2 * p->slots : FIRST_SLOTS;
    char *block = realloc(p->block, (size_t)slots * SLOT);
    if (!block)
        return -1;
    memset(block + (size_t)p->slots * SLOT, 0, (size_t)(slots - p->slots) * SLOT);
    p->block = block;
    p->slots = slots;
    return 0;
}

static int add(struct pool *p, const char *text)
{
    if (strlen(text) >= SLOT)
        return -1;
    if (p->used == p->slots && grow(p) < 0)
        exit(2);
    strcpy(slot(p, p->used), text);
    return p->used++;
}

static int rename_label(struct pool *p, int i, const char *text)
{
    size_t n = strlen(text);
    if (i < 0 || i >= p->used || n > SLOT) /* BUG */
        return -1;
    memcpy(slot(p, i), text, n);
    slot(p, i)[n] = '\0';
    p->renamed++;
    return i;
}

static void show(struct pool *p)
{
    for (int i = 0; i < p->used; i++)
        printf("%2d '%s'\n", i, slot(p, i));
    printf("%d used, %d renamed, %d refused\n", p->used, p->renamed, p->refused);
}

int main(int argc, char **argv)
{
    struct pool p = { NULL, 0, 0, 0, 0 };
    for (int i = 1; i < argc; i++) {
        int done = -1;
        char *eq = strchr(argv[i], '=');
        if (argv[i][0] == '+')
            done = add(&p, argv[i] + 1);
        else if (eq)
            done = rename_label(&p, atoi(argv[i]), eq + 1);
        if (done < 0)
            p.refused++;
    }
    show(&p);
    free(p.block);
    return 0;
}
