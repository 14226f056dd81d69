// Squeezes text by references to what came before and unpacks it again; the longest distance allowed does not fit into its byte.
// fails: output
// run: 7 256 900
// good: 7 250 900
// good: 3 100 600
// good: 11 300 1200
// good: 5 26 200
// repair: while (at >= 0 && pos - at < WINDOW && tries-- > 0) {
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 256
#define SHORTEST 3
#define LONGEST 18
#define BUCKETS 512
#define MAX_TRIES 64

struct buffer {
    unsigned char *bytes;
    int length;
    int room;
};

/* Where each hash of three bytes was seen last, and where before that. */
struct chains {
    int head[BUCKETS];
    int *previous;
};

struct match {
    int distance;
    int length;
};

static void append(struct buffer *b, unsigned char c)
{
    if (b->length == b->room) {
        b->room = b->room ? 2 * b->room : 64;
        b->bytes = realloc(b->bytes, b->room);
        if (!b->bytes)
            exit(2);
    }
    b->bytes[b->length++] = c;
}

static unsigned hash3(const unsigned char *p)
{
    return (p[0] * 33u * 33u + p[1] * 33u + p[2]) % BUCKETS;
}

static void remember(struct chains *ch, const struct buffer *in, int pos)
{
    if (pos + SHORTEST > in->length)
        return;
    unsigned h = hash3(in->bytes + pos);
    ch->previous[pos] = ch->head[h];
    ch->head[h] = pos;
}

static int common(const struct buffer *in, int a, int b)
{
    int n = 0;
    while (n < LONGEST && b + n < in->length && in->bytes[a + n] == in->bytes[b + n])
        n++;
    return n;
}

/* The longest stretch in the window that is the same as what comes next. */
static struct match find(const struct chains *ch, const struct buffer *in, int pos)
{
    struct match best = {0, 0};
    int tries = MAX_TRIES;

    if (pos + SHORTEST > in->length)
        return best;
    int at = ch->head[hash3(in->bytes + pos)];
    while (at >= 0 && pos - at <= WINDOW && tries-- > 0) { /* BUG */
        int n = common(in, at, pos);
        if (n > best.length) {
            best.length = n;
            best.distance = pos - at;
        }
        at = ch->previous[at];
    }
    return best;
}

/* Eight items follow each flag byte. A set flag stands for a reference. */
static void pack(const struct buffer *in, struct buffer *out)
{
    struct chains ch;
    int flag_at = 0, flag_bit = 8, pos = 0;

    for (int i = 0; i < BUCKETS; i++)
        ch.head[i] = -1;
    ch.previous = malloc((in->length + 1) * sizeof(int));
    while (pos < in->length) {
        if (flag_bit == 8) {
            flag_at = out->length;
            flag_bit = 0;
            append(out, 0);
        }
        struct match m = find(&ch, in, pos);
        int step = 1;
        if (m.length >= SHORTEST) {
            out->bytes[flag_at] |= 1 << flag_bit;
            append(out, (unsigned char)m.distance);
            append(out, (unsigned char)(m.length - SHORTEST));
            step = m.length;
        } else {
            append(out, in->bytes[pos]);
        }
        flag_bit++;
        for (int i = 0; i < step; i++)
            remember(&ch, in, pos + i);
        pos += step;
    }
    free(ch.previous);
}

static int unpack(const struct buffer *in, unsigned char *out, int room)
{
    int n = 0, pos = 0;

    while (pos < in->length) {
        int flags = in->bytes[pos++];
        for (int bit = 0; bit < 8 && pos < in->length; bit++) {
            if (flags & 1 << bit) {
                int distance = in->bytes[pos++];
                int length = in->bytes[pos++] + SHORTEST;
                for (int i = 0; i < length && n < room; i++, n++)
                    out[n] = out[n - distance];
            } else if (n < room) {
                out[n++] = in->bytes[pos++];
            }
        }
    }
    return n;
}

/* A text that comes again after `period` letters, with a few changes. */
static void compose(struct buffer *text, unsigned seed, int period, int length)
{
    static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz ,.;";
    for (int i = 0; i < length; i++) {
        seed = seed * 1103515245u + 12345u;
        if (i >= period && (seed >> 16) % 40 != 0)
            append(text, text->bytes[i - period]);
        else
            append(text, letters[(seed >> 16) % (sizeof letters - 1)]);
    }
}

static unsigned checksum(const unsigned char *p, int n)
{
    unsigned a = 1, b = 0;
    for (int i = 0; i < n; i++) {
        a = (a + p[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void show(const unsigned char *p, int n)
{
    for (int i = 0; i < n; i++) {
        putchar(p[i] >= ' ' && p[i] < 127 ? p[i] : '_');
        if (i % 60 == 59 || i == n - 1)
            putchar('\n');
    }
}

int main(int argc, char **argv)
{
    struct buffer text = {0}, packed = {0};

    if (argc != 4) {
        fprintf(stderr, "usage: squeeze SEED PERIOD LENGTH\n");
        return 2;
    }
    compose(&text, (unsigned)atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    pack(&text, &packed);
    unsigned char *back = calloc(text.length + LONGEST, 1);
    int n = unpack(&packed, back, text.length);
    printf("unpacked %d bytes, sum %08x\n", n, checksum(back, n));
    show(back, n);
    free(text.bytes);
    free(packed.bytes);
    free(back);
    return 0;
}
