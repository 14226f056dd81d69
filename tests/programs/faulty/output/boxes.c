// Lays out boxes within boxes and draws them as letters; where a box sticks out of its parent at the bottom, the parent's width is taken for its height.
// fails: output
// run: 40 12 'w,,2,1,24,6,.' 'title,w,1,0,20,2,t' 'list,w,2,3,10,6,l' 'item,list,1,1,6,1,i' 'v,,20,4,16,7,-' 'note,v,10,2,12,3,n' move,w,1,1 raise,v
// good: 40 12 'w,,2,1,24,6,.' 'title,w,1,0,20,2,t' 'list,w,2,2,10,3,l' 'item,list,1,1,6,1,i' 'v,,20,4,16,7,-' 'note,v,10,2,12,3,n' raise,w
// good: 20 20 'a,,1,1,10,10,a' 'b,a,5,5,8,8,b' 'c,b,2,3,9,1,c' move,a,2,1
// good: 30 8 'x,,0,0,30,8,~' 'y,x,3,1,8,4,y' 'z,x,8,2,30,3,z' hide,y move,z,-6,1
// repair: int bottom = smaller(a.y + a.height, b.y + b.height);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BOXES 32
#define MAX_WIDTH 80
#define MAX_HEIGHT 40

struct rect {
    int x, y, width, height;
};

struct box {
    char name[16];
    struct box *parent;
    struct rect place;   /* within the parent */
    struct rect visible; /* on the screen */
    char fill;
    int hidden;
};

struct screen {
    int width, height;
    char letters[MAX_HEIGHT][MAX_WIDTH];
    struct box boxes[MAX_BOXES];
    struct box *order[MAX_BOXES]; /* from the back to the front */
    int count;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static struct rect common(struct rect a, struct rect b)
{
    int left = larger(a.x, b.x), top = larger(a.y, b.y);
    int right = smaller(a.x + a.width, b.x + b.width);
    int bottom = smaller(a.y + a.height, b.y + b.width); /* BUG */
    struct rect r = {left, top, larger(right - left, 0), larger(bottom - top, 0)};
    return r;
}

static void die(const char *what, const char *which)
{
    fprintf(stderr, "boxes: %s: %s\n", what, which);
    exit(2);
}

static struct box *find(struct screen *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->boxes[i].name, name) == 0)
            return &s->boxes[i];
    die("no such box", name);
    return NULL;
}

static struct rect on_screen(const struct box *b)
{
    struct rect r = b->place;
    for (const struct box *p = b->parent; p; p = p->parent) {
        r.x += p->place.x;
        r.y += p->place.y;
    }
    return r;
}

static int is_within(const struct box *b, const struct box *outer)
{
    while (b && b != outer)
        b = b->parent;
    return b == outer;
}

/* Finds out anew what can be seen of a box and of all within it. Parents come before their children. */
static void lay_out(struct screen *s, struct box *from)
{
    struct rect all = {0, 0, s->width, s->height};

    for (int i = 0; i < s->count; i++) {
        struct box *b = &s->boxes[i];
        if (is_within(b, from))
            b->visible = common(on_screen(b), b->parent ? b->parent->visible : all);
    }
}

static void add_box(struct screen *s, char **words)
{
    if (s->count == MAX_BOXES)
        die("too many boxes", words[0]);
    struct box *b = &s->boxes[s->count];
    snprintf(b->name, sizeof b->name, "%s", words[0]);
    b->parent = *words[1] ? find(s, words[1]) : NULL;
    b->place.x = atoi(words[2]);
    b->place.y = atoi(words[3]);
    b->place.width = atoi(words[4]);
    b->place.height = atoi(words[5]);
    b->fill = *words[6];
    s->order[s->count++] = b;
    lay_out(s, b);
}

/* The box and those within it go to the front. They keep their order. */
static void raise_box(struct screen *s, const struct box *front)
{
    struct box *order[MAX_BOXES];
    int n = 0;

    for (int i = 0; i < s->count; i++)
        if (!is_within(s->order[i], front))
            order[n++] = s->order[i];
    for (int i = 0; i < s->count; i++)
        if (is_within(s->order[i], front))
            order[n++] = s->order[i];
    memcpy(s->order, order, sizeof order[0] * n);
}

static int is_hidden(const struct box *b)
{
    for (; b; b = b->parent)
        if (b->hidden)
            return 1;
    return 0;
}

static void draw(struct screen *s)
{
    memset(s->letters, ' ', sizeof s->letters);
    for (int i = 0; i < s->count; i++) {
        const struct box *b = s->order[i];
        if (is_hidden(b))
            continue;
        for (int y = 0; y < b->visible.height; y++)
            for (int x = 0; x < b->visible.width; x++)
                s->letters[b->visible.y + y][b->visible.x + x] = b->fill;
    }
    for (int y = 0; y < s->height; y++)
        printf("|%.*s|\n", s->width, s->letters[y]);
}

static void count_letters(const struct screen *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct box *b = &s->boxes[i];
        int seen = 0;
        for (int y = 0; y < s->height; y++)
            for (int x = 0; x < s->width; x++)
                seen += s->letters[y][x] == b->fill;
        printf("%s: %d of %d\n", b->name, seen, b->place.width * b->place.height);
    }
}

/* Splits at commas. Empty words count. */
static int split(char *text, char **words, int room)
{
    int n = 0;
    while (n < room) {
        words[n++] = text;
        text = strchr(text, ',');
        if (!text)
            break;
        *text++ = 0;
    }
    return n;
}

static void carry_out(struct screen *s, const char *order)
{
    char copy[80], *words[7];
    snprintf(copy, sizeof copy, "%s", order);
    int n = split(copy, words, 7);

    if (n == 7) {
        add_box(s, words);
    } else if (n == 4 && strcmp(words[0], "move") == 0) {
        struct box *b = find(s, words[1]);
        b->place.x += atoi(words[2]);
        b->place.y += atoi(words[3]);
        lay_out(s, b);
    } else if (n == 2 && strcmp(words[0], "raise") == 0) {
        raise_box(s, find(s, words[1]));
    } else if (n == 2 && strcmp(words[0], "hide") == 0) {
        find(s, words[1])->hidden = 1;
    } else {
        die("not understood", order);
    }
}

int main(int argc, char **argv)
{
    static struct screen s;

    if (argc < 3)
        die("usage", "boxes WIDTH HEIGHT ORDER...");
    s.width = smaller(atoi(argv[1]), MAX_WIDTH);
    s.height = smaller(atoi(argv[2]), MAX_HEIGHT);
    for (int i = 3; i < argc; i++)
        carry_out(&s, argv[i]);
    draw(&s);
    count_letters(&s);
    return 0;
}
