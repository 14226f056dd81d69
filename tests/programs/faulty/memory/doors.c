// Grants access to doors by badge; a holder's name that just fills its field puts its end into the field for the level behind it.
// fails: output
// run: ann:2 christobelle:3 bob:1 lab office vault
// good: ann:2 christobel:3 bob:1 lab office vault
// good: ann:2 maximilianus-long:3 lab vault
// good: bob:1 eve:0 office lab
// repair:     if (!colon || colon - text >= NAME || s->count == MAX_BADGES)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME 12
#define MAX_BADGES 10

struct badge {
    char name[NAME];
    unsigned char level;
    unsigned char uses;
    short number;
};

struct door {
    const char *name;
    int level;
};

struct system {
    struct badge badges[MAX_BADGES];
    int count;
};

static const struct door doors[] = { { "office", 1 }, { "lab", 2 }, { "vault", 3 } };

static void set_name(struct badge *b, const char *from, int length)
{
    for (int i = 0; i < length; i++)
        b->name[i] = from[i];
    b->name[length] = '\0';
}

static int add_badge(struct system *s, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon - text > NAME || s->count == MAX_BADGES) /* BUG */
        return -1;
    struct badge *b = &s->badges[s->count];
    b->number = 100 + s->count++;
    b->uses = 0;
    b->level = (unsigned char)atoi(colon + 1);
    set_name(b, text, (int)(colon - text));
    return b->number;
}

static const struct door *find_door(const char *name)
{
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (strcmp(doors[i].name, name) == 0)
            return &doors[i];
    return NULL;
}

static void try_door(struct system *s, const struct door *d)
{
    printf("%s:", d->name);
    for (int i = 0; i < s->count; i++) {
        struct badge *b = &s->badges[i];
        if (b->level >= d->level) {
            b->uses++;
            printf(" %s", b->name);
        }
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct system s;
    for (int i = 1; i < argc; i++) {
        const struct door *d = find_door(argv[i]);
        if (d)
            try_door(&s, d);
        else if (add_badge(&s, argv[i]) < 0)
            printf("refused %s\n", argv[i]);
    }
    for (int i = 0; i < s.count; i++)
        printf("%d %.*s %d\n", s.badges[i].number, NAME, s.badges[i].name, s.badges[i].uses);
    return 0;
}
