// Draws circles into a picture of a given size and prints a few sums; the number of bytes is kept in 16 bits, so that for a large picture the block is too small.
// fails: SIGABRT
// run: 260 253 100,100,40 50,200,20
// good: 200 200 100,100,40 50,200,20
// good: 255 257 10,10,30
// good: 16 16 8,8,5 0,0,4
// repair:     size_t bytes = (size_t)width * height;
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIP 16

struct picture {
    int width, height;
    uint8_t *pixels;
};

struct strip {
    long sum;
    int set;
};

static int init(struct picture *p, int width, int height)
{
    uint16_t bytes = width * height; /* BUG */
    p->width = width;
    p->height = height;
    p->pixels = malloc(bytes);
    return p->pixels ? 0 : -1;
}

static void clear(struct picture *p, uint8_t value)
{
    for (int y = 0; y < p->height; y++)
        memset(p->pixels + (size_t)y * p->width, value, p->width);
}

static void circle(struct picture *p, int cx, int cy, int r)
{
    for (int y = cy - r; y <= cy + r; y++) {
        if (y < 0 || y >= p->height)
            continue;
        for (int x = cx - r; x <= cx + r; x++) {
            if (x < 0 || x >= p->width)
                continue;
            int dx = x - cx, dy = y - cy;
            if (dx * dx + dy * dy <= r * r)
                p->pixels[(size_t)y * p->width + x] += 10;
        }
    }
}

static struct strip *measure(const struct picture *p, int *count)
{
    *count = (p->height + STRIP - 1) / STRIP;
    struct strip *strips = calloc(*count, sizeof *strips);
    if (!strips)
        exit(2);
    for (int y = 0; y < p->height; y++) {
        struct strip *s = &strips[y / STRIP];
        for (int x = 0; x < p->width; x++) {
            s->sum += p->pixels[(size_t)y * p->width + x];
            s->set += p->pixels[(size_t)y * p->width + x] != 1;
        }
    }
    return strips;
}

int main(int argc, char **argv)
{
    struct picture p;
    if (argc < 3 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1 || atoi(argv[1]) > 300 || atoi(argv[2]) > 300)
        return 2;
    if (init(&p, atoi(argv[1]), atoi(argv[2])) < 0)
        return 2;
    clear(&p, 1);
    for (int i = 3; i < argc; i++) {
        int x, y, r;
        if (sscanf(argv[i], "%d,%d,%d", &x, &y, &r) == 3)
            circle(&p, x, y, r);
    }
    int count;
    struct strip *strips = measure(&p, &count);
    for (int i = 0; i < count; i++)
        if (strips[i].set)
            printf("rows %d to %d: %d set, sum %ld\n", i * STRIP, i * STRIP + STRIP - 1, strips[i].set, strips[i].sum);
    printf("%d by %d\n", p.width, p.height);
    free(strips);
    free(p.pixels);
    return 0;
}
