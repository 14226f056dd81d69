// Keeps shapes of several kinds in blocks of their own; the block of a box is asked for with the size of the common part.
// fails: silent
// run: disc:3 box:4x5 line:7 box:2x2
// good: disc:3 line:7
// good: line:1 line:2 disc:10 blob:3
// good: box:4 disc:5 box:x
// repair:     struct box *b = (struct box *)make(BOX, sizeof *b);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { LINE, DISC, BOX };

struct shape {
    enum kind kind;
    int number;
    int size;
};

struct box {
    struct shape base;
    int width, height;
};

struct drawing {
    struct shape *shapes[20];
    int count;
};

static int made;

static struct shape *make(enum kind kind, size_t size)
{
    struct shape *s = malloc(size);
    if (!s)
        exit(2);
    s->kind = kind;
    s->number = ++made;
    s->size = 0;
    return s;
}

static struct shape *make_round(enum kind kind, int size)
{
    struct shape *s = make(kind, sizeof *s);
    s->size = size;
    return s;
}

static struct shape *make_box(int width, int height)
{
    struct box *b = (struct box *)make(BOX, sizeof b->base); /* BUG */
    b->base.size = width > height ? width : height;
    b->width = width;
    b->height = height;
    return &b->base;
}

static long area(const struct shape *s)
{
    const struct box *b = (const struct box *)s;
    switch (s->kind) {
    case LINE: return 0;
    case DISC: return 314L * s->size * s->size / 100;
    case BOX: return (long)b->width * b->height;
    }
    return -1;
}

static struct shape *read_shape(const char *text)
{
    int a, b;
    if (sscanf(text, "box:%dx%d", &a, &b) == 2)
        return make_box(a, b);
    if (sscanf(text, "disc:%d", &a) == 1)
        return make_round(DISC, a);
    if (sscanf(text, "line:%d", &a) == 1)
        return make_round(LINE, a);
    return NULL;
}

int main(int argc, char **argv)
{
    struct drawing d = { .count = 0 };
    long sum = 0;
    for (int i = 1; i < argc && d.count < 20; i++) {
        struct shape *s = read_shape(argv[i]);
        if (s)
            d.shapes[d.count++] = s;
        else
            printf("cannot read %s\n", argv[i]);
    }
    for (int i = 0; i < d.count; i++) {
        const struct shape *s = d.shapes[i];
        sum += area(s);
        printf("%d: kind %d, size %d, area %ld\n", s->number, s->kind, s->size, area(s));
    }
    printf("%d shapes, area %ld\n", d.count, sum);
    for (int i = 0; i < d.count; i++)
        free(d.shapes[i]);
    return 0;
}
