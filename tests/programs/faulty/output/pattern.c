// Matches words against a pattern by running all states of a little automaton at once; a class such as \d within brackets drops the letters before it.
// fails: output
// run: '[a-f\d]+(-[a-f\d]+)*' cafe beef-77 12-34 xyz a1-b2-c3 9
// good: '[\da-f]+(-[\da-f]+)*' cafe beef-77 12-34 xyz a1-b2-c3 9
// good: '\w+@\w+(\.\w+)+' joe@site.org joe@site a.b@c.d x_1@mail.co.uk
// good: '(0|1|[^\d])*' 0110 abc 012 '' x1y0
// good: -s '[ab]?[^a-c]+d*\d' ax1 'or bd3' dd cab7 zzzd9
// good: -i -v '[x-z]+\d*' XYZ12 abc zy y-2
// repair: into->bits[i] |= from->bits[i];
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STATES 256
#define MAX_SETS 32

struct set {
    unsigned char bits[32];
};

enum kind { CHAR, ANY, SET, SPLIT, DONE };

struct state {
    enum kind kind;
    unsigned char c;
    int set;
    int out;
    int other;
};

/* A piece of the automaton. The ends that lead nowhere yet are a list through `out` and `other`. */
struct piece {
    int start;
    int ends[64];
    int end_count;
};

static struct state states[MAX_STATES];
static int state_count;
static struct set sets[MAX_SETS];
static int set_count;
static const char *at;

struct options {
    int anywhere;
    int ignore_case;
    int inverse;
};

static struct piece parse_choice(void);

static void die(const char *what)
{
    fprintf(stderr, "pattern: %s\n", what);
    exit(2);
}

static int new_state(enum kind kind)
{
    if (state_count == MAX_STATES)
        die("too many states");
    states[state_count].kind = kind;
    states[state_count].out = -1;
    states[state_count].other = -1;
    return state_count++;
}

static void set_add(struct set *s, int low, int high)
{
    for (int c = low; c <= high; c++)
        s->bits[c >> 3] |= 1 << (c & 7);
}

static int set_has(const struct set *s, unsigned char c)
{
    return s->bits[c >> 3] >> (c & 7) & 1;
}

static void set_join(struct set *into, const struct set *from)
{
    for (int i = 0; i < 32; i++)
        into->bits[i] = from->bits[i]; /* BUG */
}

static void set_flip(struct set *s)
{
    for (int i = 0; i < 32; i++)
        s->bits[i] = ~s->bits[i];
    s->bits[0] &= ~1;
}

static int class_of(char letter, struct set *s)
{
    memset(s, 0, sizeof *s);
    switch (letter) {
    case 'd':
    case 'D':
        set_add(s, '0', '9');
        break;
    case 'w':
    case 'W':
        set_add(s, 'a', 'z');
        set_add(s, 'A', 'Z');
        set_add(s, '0', '9');
        set_add(s, '_', '_');
        break;
    case 's':
    case 'S':
        set_add(s, ' ', ' ');
        set_add(s, '\t', '\r');
        break;
    default:
        return 0;
    }
    if (letter < 'a')
        set_flip(s);
    return 1;
}

static struct piece single(int state)
{
    struct piece p = {.start = state, .end_count = 1};
    p.ends[0] = state * 2;
    return p;
}

static void connect(struct piece *p, int target)
{
    for (int i = 0; i < p->end_count; i++) {
        struct state *s = &states[p->ends[i] / 2];
        if (p->ends[i] % 2)
            s->other = target;
        else
            s->out = target;
    }
}

static void take_ends(struct piece *p, const struct piece *from)
{
    if (p->end_count + from->end_count > 64)
        die("too many branches");
    for (int i = 0; i < from->end_count; i++)
        p->ends[p->end_count++] = from->ends[i];
}

static struct piece parse_brackets(void)
{
    int flip = 0;
    if (set_count == MAX_SETS)
        die("too many sets");
    struct set *s = &sets[set_count];

    memset(s, 0, sizeof *s);
    if (*at == '^') {
        flip = 1;
        at++;
    }
    while (*at && *at != ']') {
        struct set class;
        if (*at == '\\' && class_of(at[1], &class)) {
            set_join(s, &class);
            at += 2;
            continue;
        }
        if (*at == '\\' && at[1])
            at++;
        unsigned char low = *at++, high = low;
        if (*at == '-' && at[1] && at[1] != ']') {
            high = at[1];
            at += 2;
        }
        set_add(s, low, high);
    }
    if (*at++ != ']')
        die("bracket not closed");
    if (flip)
        set_flip(s);
    int n = new_state(SET);
    states[n].set = set_count++;
    return single(n);
}

static struct piece parse_atom(void)
{
    int n;

    if (*at == '(') {
        at++;
        struct piece p = parse_choice();
        if (*at++ != ')')
            die("bracket not closed");
        return p;
    }
    if (*at == '[') {
        at++;
        return parse_brackets();
    }
    if (*at == '.') {
        at++;
        return single(new_state(ANY));
    }
    if (*at == '\\' && at[1]) {
        struct set class;
        if (class_of(at[1], &class)) {
            if (set_count == MAX_SETS)
                die("too many sets");
            set_join(&sets[set_count], &class);
            n = new_state(SET);
            states[n].set = set_count++;
            at += 2;
            return single(n);
        }
        at++;
    }
    n = new_state(CHAR);
    states[n].c = *at++;
    return single(n);
}

static struct piece parse_repeat(void)
{
    struct piece p = parse_atom();

    while (*at == '*' || *at == '+' || *at == '?') {
        char how = *at++;
        int n = new_state(SPLIT);
        states[n].out = p.start;
        if (how == '?') {
            struct piece skip = {.start = n, .end_count = 1};
            skip.ends[0] = n * 2 + 1;
            take_ends(&p, &skip);
            p.start = n;
            continue;
        }
        connect(&p, n);
        if (how == '*')
            p.start = n;
        p.ends[0] = n * 2 + 1;
        p.end_count = 1;
    }
    return p;
}

static struct piece parse_sequence(void)
{
    struct piece all = parse_repeat();

    while (*at && *at != '|' && *at != ')') {
        struct piece next = parse_repeat();
        connect(&all, next.start);
        next.start = all.start;
        all = next;
    }
    return all;
}

static struct piece parse_choice(void)
{
    struct piece all = parse_sequence();

    while (*at == '|') {
        at++;
        struct piece next = parse_sequence();
        int n = new_state(SPLIT);
        states[n].out = all.start;
        states[n].other = next.start;
        take_ends(&all, &next);
        all.start = n;
    }
    return all;
}

static int compile(const char *pattern)
{
    at = pattern;
    struct piece p = parse_choice();
    if (*at)
        die("too many closing brackets");
    connect(&p, new_state(DONE));
    return p.start;
}

static void follow(char *active, int n)
{
    if (n < 0 || active[n])
        return;
    active[n] = 1;
    if (states[n].kind == SPLIT) {
        follow(active, states[n].out);
        follow(active, states[n].other);
    }
}

static int accepts(const struct state *s, unsigned char c)
{
    switch (s->kind) {
    case CHAR: return s->c == c;
    case ANY: return 1;
    case SET: return set_has(&sets[s->set], c);
    default: return 0;
    }
}

/* How many letters of the word the pattern takes at most; -1 if it does not match at all. */
static int longest_match(int start, const char *word)
{
    char now[MAX_STATES] = {0};
    int best = -1;

    follow(now, start);
    for (int i = 0;; i++) {
        char next[MAX_STATES] = {0};
        for (int n = 0; n < state_count; n++) {
            if (!now[n])
                continue;
            if (states[n].kind == DONE)
                best = i;
            else if (word[i] && accepts(&states[n], word[i]))
                follow(next, states[n].out);
        }
        if (!word[i])
            return best;
        memcpy(now, next, sizeof now);
    }
}

/* With small and large letters taken for the same, either of them stands for both. */
static void join_cases(void)
{
    for (int i = 0; i < set_count; i++) {
        for (int c = 'a'; c <= 'z'; c++) {
            int upper = c - 'a' + 'A';
            if (set_has(&sets[i], c) || set_has(&sets[i], upper)) {
                set_add(&sets[i], c, c);
                set_add(&sets[i], upper, upper);
            }
        }
    }
    for (int n = 0; n < state_count; n++) {
        if (states[n].kind != CHAR || !isalpha(states[n].c))
            continue;
        if (set_count == MAX_SETS)
            die("too many sets");
        struct set *s = &sets[set_count];
        set_add(s, tolower(states[n].c), tolower(states[n].c));
        set_add(s, toupper(states[n].c), toupper(states[n].c));
        states[n].kind = SET;
        states[n].set = set_count++;
    }
}

static int report(const struct options *o, int start, const char *word)
{
    int length = (int)strlen(word);
    int from = 0, n = longest_match(start, word);

    while (o->anywhere && n <= 0 && from < length)
        n = longest_match(start, word + ++from);
    int yes = n == length - from && from == 0;
    if (o->inverse) {
        if (!yes)
            printf("%s\n", word);
        return !yes;
    }
    if (n < 0)
        printf("%-16s no\n", word);
    else if (yes)
        printf("%-16s yes\n", word);
    else if (from == 0)
        printf("%-16s begins: %.*s\n", word, n, word);
    else
        printf("%-16s has: %.*s\n", word, n, word + from);
    return yes || (o->anywhere && n > 0);
}

int main(int argc, char **argv)
{
    struct options o = {0};
    int found = 0, i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        o.anywhere |= argv[i][1] == 's';
        o.ignore_case |= argv[i][1] == 'i';
        o.inverse |= argv[i][1] == 'v';
    }
    if (i == argc || !*argv[i])
        die("a pattern, please");
    int start = compile(argv[i++]);
    if (o.ignore_case)
        join_cases();
    int words = argc - i;
    for (; i < argc; i++)
        found += report(&o, start, argv[i]);
    printf("%d of %d\n", found, words);
    return 0;
}
