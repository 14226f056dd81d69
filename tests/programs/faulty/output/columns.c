// Sets rows of text in columns, whatever the script; one bit is missing in the mask for letters of three bytes.
// fails: output
// run: 12 'name|city|points' 'Ana María|Córdoba|12' 'グレタ|東京|7' '陳大文|香港|103' 'Kim 지우|서울|55'
// good: 12 'name|city|points' 'Ana María|Córdoba|12' 'Zoë|Besançon|7' 'Łukasz|Łódź|103'
// good: 10 'first|last' '木村|太一' '山田|一' 'Søren|Å'
// good: 8 'a|b|c' 'plain|words only here|1' '日本|¿qué?|22'
// repair: *bits = first & 0x0f;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 8
#define MAX_LETTERS 256
#define MAX_ROWS 32

struct letter {
    unsigned code;
    int bytes;
    int width;
    const char *at;
};

struct cell {
    struct letter letters[MAX_LETTERS];
    int count;
    int numeric;
};

struct row {
    struct cell *cells[MAX_COLUMNS];
    int count;
};

struct table {
    struct row rows[MAX_ROWS];
    int row_count;
    int widths[MAX_COLUMNS];
    int column_count;
    int widest;
};

/* The bits of the first byte that count, and how many bytes follow; -1 if no letter begins so. */
static int lead_bits(unsigned char first, unsigned *bits)
{
    if (first < 0x80) {
        *bits = first;
        return 0;
    }
    if ((first & 0xe0) == 0xc0) {
        *bits = first & 0x1f;
        return 1;
    }
    if ((first & 0xf0) == 0xe0) {
        *bits = first & 0x07; /* BUG */
        return 2;
    }
    if ((first & 0xf8) == 0xf0) {
        *bits = first & 0x07;
        return 3;
    }
    return -1;
}

/* Scripts whose letters take two places. */
static const struct {
    unsigned low, high;
} wide[] = {
    {0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
};

static int width_of(unsigned code)
{
    if (code >= 0x300 && code <= 0x36f)
        return 0;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (code >= wide[i].low && code <= wide[i].high)
            return 2;
    return 1;
}

/* Reads one letter. A byte that begins none counts as a letter by itself. */
static int decode(const char *s, const char *end, struct letter *l)
{
    int more = lead_bits((unsigned char)*s, &l->code);

    l->at = s;
    if (more >= 0 && s + more < end) {
        for (int k = 1; k <= more; k++)
            l->code = l->code << 6 | ((unsigned char)s[k] & 0x3f);
        l->bytes = more + 1;
        l->width = width_of(l->code);
        return l->bytes;
    }
    l->code = 0xfffd;
    l->bytes = 1;
    l->width = 1;
    return 1;
}

static struct cell *new_cell(const char *s, const char *end)
{
    struct cell *c = calloc(1, sizeof *c);

    c->numeric = s < end;
    while (s < end && c->count < MAX_LETTERS) {
        struct letter *l = &c->letters[c->count++];
        s += decode(s, end, l);
        if (l->code < '0' || l->code > '9')
            c->numeric = 0;
    }
    return c;
}

static int cell_width(const struct cell *c)
{
    int n = 0;
    for (int i = 0; i < c->count; i++)
        n += c->letters[i].width;
    return n;
}

static void add_row(struct table *t, const char *text)
{
    if (t->row_count == MAX_ROWS) {
        fprintf(stderr, "columns: too many rows\n");
        exit(2);
    }
    struct row *r = &t->rows[t->row_count++];
    while (r->count < MAX_COLUMNS) {
        const char *end = text + strcspn(text, "|");
        r->cells[r->count++] = new_cell(text, end);
        if (!*end)
            break;
        text = end + 1;
    }
    if (r->count > t->column_count)
        t->column_count = r->count;
}

static void measure(struct table *t)
{
    for (int i = 0; i < t->row_count; i++) {
        const struct row *r = &t->rows[i];
        for (int k = 0; k < r->count; k++) {
            int w = cell_width(r->cells[k]);
            if (w > t->widest)
                w = t->widest;
            if (w > t->widths[k])
                t->widths[k] = w;
        }
    }
}

/* Prints what fits and says how many places it took. */
static int print_letters(const struct cell *c, int room)
{
    int used = 0;
    for (int i = 0; i < c->count; i++) {
        const struct letter *l = &c->letters[i];
        if (used + l->width > room)
            break;
        fwrite(l->at, 1, l->bytes, stdout);
        used += l->width;
    }
    return used;
}

static void print_cell(const struct cell *c, int room)
{
    if (c && c->numeric) {
        printf("%*s", room - cell_width(c), "");
        print_letters(c, room);
    } else {
        int used = c ? print_letters(c, room) : 0;
        printf("%*s", room - used, "");
    }
}

static void print_rule(const struct table *t)
{
    for (int k = 0; k < t->column_count; k++) {
        putchar('+');
        for (int i = 0; i < t->widths[k] + 2; i++)
            putchar('-');
    }
    printf("+\n");
}

static void print_table(const struct table *t)
{
    print_rule(t);
    for (int i = 0; i < t->row_count; i++) {
        const struct row *r = &t->rows[i];
        for (int k = 0; k < t->column_count; k++) {
            printf("| ");
            print_cell(k < r->count ? r->cells[k] : NULL, t->widths[k]);
            putchar(' ');
        }
        printf("|\n");
        if (i == 0)
            print_rule(t);
    }
    print_rule(t);
}

int main(int argc, char **argv)
{
    static struct table t;

    if (argc < 3 || (t.widest = atoi(argv[1])) < 1) {
        fprintf(stderr, "usage: columns WIDEST ROW...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        add_row(&t, argv[i]);
    measure(&t);
    print_table(&t);
    for (int i = 0; i < t.row_count; i++)
        for (int k = 0; k < t.rows[i].count; k++)
            free(t.rows[i].cells[k]);
    return 0;
}
