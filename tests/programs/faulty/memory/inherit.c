// A reader of settings in sections that inherit from each other; a base section that is not there is not noticed and is then read through a null pointer.
// fails: SIGSEGV
// run: web.port db.port cache.size cache.timeout
// good: web.port db.port
// good: db.timeout web.timeout cache.size
// good: web.missing db.host cache.size cache.policy
// repair:         return base ? lookup(cfg, base, key) : NULL;
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SECTIONS 16
#define MAX_KEYS 16
#define TEXT 32

struct entry {
    char key[TEXT];
    char value[TEXT];
};

struct section {
    char name[TEXT];
    char base[TEXT];
    int count;
    struct entry entries[MAX_KEYS];
};

struct config {
    int count;
    struct section sections[MAX_SECTIONS];
};

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    char *end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return s;
}

static void set_text(char *to, const char *from)
{
    snprintf(to, TEXT, "%s", from);
}

static struct section *find_section(struct config *cfg, const char *name)
{
    for (int i = 0; i < cfg->count; i++)
        if (strcmp(cfg->sections[i].name, name) == 0)
            return &cfg->sections[i];
    return NULL;
}

/* A heading is "[name]" or "[name : base]". */
static struct section *add_section(struct config *cfg, char *heading)
{
    if (cfg->count == MAX_SECTIONS)
        return NULL;
    struct section *s = &cfg->sections[cfg->count++];
    char *colon = strchr(heading, ':');
    if (colon) {
        *colon = '\0';
        set_text(s->base, trim(colon + 1));
    }
    set_text(s->name, trim(heading));
    return s;
}

static int add_entry(struct section *s, char *line)
{
    char *eq = strchr(line, '=');
    if (!eq || s->count == MAX_KEYS)
        return -1;
    *eq = '\0';
    struct entry *e = &s->entries[s->count++];
    set_text(e->key, trim(line));
    set_text(e->value, trim(eq + 1));
    return 0;
}

static int load(struct config *cfg, FILE *in)
{
    char buf[128];
    struct section *cur = NULL;
    int bad = 0;
    while (fgets(buf, sizeof buf, in)) {
        char *line = trim(buf);
        if (*line == '\0' || *line == '#')
            continue;
        if (*line == '[') {
            char *close = strchr(line, ']');
            if (!close) {
                bad++;
                continue;
            }
            *close = '\0';
            cur = add_section(cfg, line + 1);
        } else if (!cur || add_entry(cur, line) < 0) {
            bad++;
        }
    }
    return bad;
}

static const char *lookup(struct config *cfg, struct section *s, const char *key)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entries[i].key, key) == 0)
            return s->entries[i].value;
    if (s->base[0] != '\0') {
        struct section *base = find_section(cfg, s->base);
        return lookup(cfg, base, key); /* BUG */
    }
    return NULL;
}

static void show(struct config *cfg, const char *query)
{
    char name[TEXT];
    set_text(name, query);
    char *dot = strchr(name, '.');
    if (!dot) {
        printf("%s: no key given\n", query);
        return;
    }
    *dot = '\0';
    struct section *s = find_section(cfg, name);
    if (!s) {
        printf("%s: no such section\n", query);
        return;
    }
    const char *value = lookup(cfg, s, dot + 1);
    printf("%s = %s\n", query, value ? value : "(not set)");
}

int main(int argc, char **argv)
{
    static struct config cfg;
    int bad = load(&cfg, stdin);
    printf("%d sections, %d bad lines\n", cfg.count, bad);
    for (int i = 1; i < argc; i++)
        show(&cfg, argv[i]);
    return 0;
}
