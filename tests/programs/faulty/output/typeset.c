// Fills paragraphs to a width as an old text formatter does, with requests in between; a change of the margin does not first put out the line begun.
// fails: output
// run: 36 '.ti 3' 'The keeper of the light wrote down the weather every evening, and' 'whenever a ship went by he noted its flag.' '.in 6' 'One page was lost.' '.in 0' 'The book is kept in the town now.'
// good: 36 '.ti 3' 'The keeper of the light wrote down the weather every evening, and' 'whenever a ship went by he noted its flag.' '.br' '.in 6' 'One page was lost.' '.sp 1' '.in 0' 'The book is kept in the town now.'
// good: 24 '.ce 2' 'A TITLE' 'and a second line' 'Then there is some text that is set to the width.' '.sp 2' 'And more.'
// good: 30 '.in 4' 'All of this stands four places in from the left side.' '.nf' 'a   b' 'c   d' '.fi' 'Filled again after the table of two lines.'
// good: 18 'Short.' '.br' 'Words of great length, extraordinarily uncooperative ones.' '.ti 2' 'End.'
// repair: else if (strcmp(name, "in") == 0) { flush_line(p, 0); p->indent = clamp(p, value); }
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE 200
#define MAX_WORDS 80

struct page {
    int width;
    int indent;
    int next_indent; /* for one line only; -1 if there is none */
    int centred;     /* so many lines of the input are still to be centred */
    int filling;
    char text[MAX_LINE]; /* the words of the line begun, each with a null after it */
    int used;
    int words;
    int letters;
    int lines_out;
    int from_left; /* where the next wide gap goes first */
};

static void put_spaces(int n)
{
    while (n-- > 0)
        putchar(' ');
}

static void end_line(struct page *p)
{
    putchar('\n');
    p->lines_out++;
}

static int clamp(const struct page *p, int value)
{
    if (value < 0)
        return 0;
    return value > p->width - 10 ? p->width - 10 : value;
}

static int left_side(const struct page *p)
{
    return p->next_indent >= 0 ? p->next_indent : p->indent;
}

static int room(const struct page *p)
{
    return p->width - left_side(p);
}

/* The extra blanks go from the left and from the right in turn. */
static void print_words(struct page *p, int extra)
{
    int gaps = p->words - 1;
    const char *w = p->text;

    for (int i = 0; i < p->words; i++) {
        printf("%s", w);
        w += strlen(w) + 1;
        if (i == gaps)
            break;
        int share = extra / gaps;
        int place = p->from_left ? i : gaps - 1 - i;
        if (place < extra % gaps)
            share++;
        put_spaces(1 + share);
    }
}

static void flush_line(struct page *p, int justify)
{
    if (p->words == 0)
        return;
    int length = p->letters + p->words - 1;
    int extra = room(p) - length;

    put_spaces(left_side(p));
    if (justify && p->words > 1 && extra > 0) {
        print_words(p, extra);
        p->from_left = !p->from_left;
    } else {
        print_words(p, 0);
    }
    end_line(p);
    p->words = p->letters = p->used = 0;
    p->next_indent = -1;
}

static void add_word(struct page *p, const char *word, int length)
{
    if (p->words > 0 && p->letters + p->words + length > room(p))
        flush_line(p, 1);
    if (p->used + length + 1 > MAX_LINE || p->words == MAX_WORDS) {
        fprintf(stderr, "typeset: line too long\n");
        exit(2);
    }
    memcpy(p->text + p->used, word, length);
    p->text[p->used + length] = 0;
    p->used += length + 1;
    p->letters += length;
    p->words++;
}

static void fill(struct page *p, const char *s)
{
    for (;;) {
        s += strspn(s, " ");
        int n = (int)strcspn(s, " ");
        if (n == 0)
            return;
        add_word(p, s, n);
        s += n;
    }
}

static void centre(struct page *p, const char *s)
{
    int spare = p->width - (int)strlen(s);
    put_spaces(spare > 0 ? spare / 2 : 0);
    printf("%s", s);
    end_line(p);
}

static void set_as_is(struct page *p, const char *s)
{
    put_spaces(left_side(p));
    printf("%s", s);
    end_line(p);
    p->next_indent = -1;
}

static void skip_lines(struct page *p, int n)
{
    flush_line(p, 0);
    while (n-- > 0)
        end_line(p);
}

static void request(struct page *p, const char *line)
{
    char name[3] = {0};
    int value = 1;

    sscanf(line, ".%2s %d", name, &value);
    if (strcmp(name, "br") == 0)
        flush_line(p, 0);
    else if (strcmp(name, "sp") == 0)
        skip_lines(p, value);
    else if (strcmp(name, "in") == 0) p->indent = clamp(p, value); /* BUG */
    else if (strcmp(name, "ti") == 0) {
        flush_line(p, 0);
        p->next_indent = clamp(p, p->indent + value);
    } else if (strcmp(name, "ce") == 0) {
        flush_line(p, 0);
        p->centred = value;
    } else if (strcmp(name, "nf") == 0) {
        flush_line(p, 0);
        p->filling = 0;
    } else if (strcmp(name, "fi") == 0) {
        p->filling = 1;
    } else {
        fprintf(stderr, "typeset: unknown request %s\n", line);
        exit(2);
    }
}

static void read_line(struct page *p, const char *line)
{
    if (line[0] == '.') {
        request(p, line);
    } else if (p->centred > 0) {
        p->centred--;
        centre(p, line);
    } else if (!p->filling) {
        set_as_is(p, line);
    } else if (line[0] == 0) {
        skip_lines(p, 1);
    } else {
        fill(p, line);
    }
}

int main(int argc, char **argv)
{
    static struct page p = {.next_indent = -1, .filling = 1};

    if (argc < 2 || (p.width = atoi(argv[1])) < 12 || p.width > 120) {
        fprintf(stderr, "usage: typeset WIDTH LINE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        read_line(&p, argv[i]);
    flush_line(&p, 0);
    printf("-- %d lines\n", p.lines_out);
    return 0;
}
