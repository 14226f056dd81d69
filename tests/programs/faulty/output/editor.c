// A line editor with a cursor, undo and redo; what an erase takes out is remembered only after it is gone.
// fails: output
// run: 'i the quick brown fox' b4 x3 'i red ' u u r b10 x6 'i slow' s f2 u u 'i!' e 'i.' s
// good: 'i the quick brown fox' b4 x3 'i wolf' s b0 x4 'i one ' u s
// good: 'i hello' 'i world' u r u 'i there' s e x5 u s
// good: 'i aaaa' b0 x2 u r 'i bb' u s
// good: 'i one two three' e x6 u x2 u u u r r s
// repair: case ERASE: remember(ed, ERASE, at, length, ed->text + at); take_out(ed, at, length); break;
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT 1024
#define MAX_CHANGES 64
#define MAX_PIECE 128

enum kind { INSERT, ERASE };

struct change {
    enum kind kind;
    int at;
    int length;
    char piece[MAX_PIECE];
};

struct editor {
    char text[MAX_TEXT];
    int length;
    int cursor;
    struct change changes[MAX_CHANGES];
    int done;   /* changes that stand */
    int undone; /* changes after those that can be made again */
};

static void die(const char *what)
{
    fprintf(stderr, "editor: %s\n", what);
    exit(2);
}

static void put_in(struct editor *ed, int at, int length, const char *piece)
{
    if (ed->length + length > MAX_TEXT)
        die("text too long");
    memmove(ed->text + at + length, ed->text + at, ed->length - at);
    memcpy(ed->text + at, piece, length);
    ed->length += length;
    ed->cursor = at + length;
}

static void take_out(struct editor *ed, int at, int length)
{
    memmove(ed->text + at, ed->text + at + length, ed->length - at - length);
    ed->length -= length;
    ed->cursor = at;
}

static void remember(struct editor *ed, enum kind kind, int at, int length, const char *piece)
{
    if (ed->done == MAX_CHANGES) {
        memmove(ed->changes, ed->changes + 1, (MAX_CHANGES - 1) * sizeof ed->changes[0]);
        ed->done--;
    }
    struct change *c = &ed->changes[ed->done++];
    c->kind = kind;
    c->at = at;
    c->length = length;
    memcpy(c->piece, piece, length);
    ed->undone = 0;
}

static void make_change(struct editor *ed, enum kind kind, int at, int length, const char *piece)
{
    if (length == 0)
        return;
    if (length > MAX_PIECE)
        die("too much at once");
    switch (kind) {
    case INSERT: remember(ed, INSERT, at, length, piece); put_in(ed, at, length, piece); break;
    case ERASE: take_out(ed, at, length); remember(ed, ERASE, at, length, ed->text + at); break; /* BUG */
    }
}

static void undo(struct editor *ed)
{
    if (ed->done == 0) {
        printf("nothing to undo\n");
        return;
    }
    struct change *c = &ed->changes[--ed->done];
    if (c->kind == INSERT)
        take_out(ed, c->at, c->length);
    else
        put_in(ed, c->at, c->length, c->piece);
    ed->undone++;
}

static void redo(struct editor *ed)
{
    if (ed->undone == 0) {
        printf("nothing to redo\n");
        return;
    }
    struct change *c = &ed->changes[ed->done++];
    if (c->kind == INSERT)
        put_in(ed, c->at, c->length, c->piece);
    else
        take_out(ed, c->at, c->length);
    ed->undone--;
}

static int within(const struct editor *ed, int at)
{
    if (at < 0)
        return 0;
    return at > ed->length ? ed->length : at;
}

/* Erases backwards from the cursor. */
static void erase(struct editor *ed, int length)
{
    int at = within(ed, ed->cursor - length);
    make_change(ed, ERASE, at, ed->cursor - at, NULL);
}

static void erase_forward(struct editor *ed, int length)
{
    int end = within(ed, ed->cursor + length);
    make_change(ed, ERASE, ed->cursor, end - ed->cursor, NULL);
}

static void forward_words(struct editor *ed, int words)
{
    while (words-- > 0) {
        while (ed->cursor < ed->length && isspace((unsigned char)ed->text[ed->cursor]))
            ed->cursor++;
        while (ed->cursor < ed->length && !isspace((unsigned char)ed->text[ed->cursor]))
            ed->cursor++;
    }
}

static void show(const struct editor *ed)
{
    int words = 0;
    for (int i = 0; i < ed->length; i++)
        if (!isspace((unsigned char)ed->text[i]) && (i == 0 || isspace((unsigned char)ed->text[i - 1])))
            words++;
    printf("[%.*s^%.*s] %d words\n", ed->cursor, ed->text, ed->length - ed->cursor, ed->text + ed->cursor, words);
}

static void carry_out(struct editor *ed, const char *order)
{
    int number = order[1] ? atoi(order + 1) : 1;

    switch (order[0]) {
    case 'i':
        make_change(ed, INSERT, ed->cursor, (int)strlen(order + 1), order + 1);
        break;
    case 'b':
        ed->cursor = within(ed, number);
        break;
    case 'e':
        ed->cursor = ed->length;
        break;
    case 'f':
        forward_words(ed, number);
        break;
    case 'x':
        if (ed->cursor == ed->length)
            erase(ed, number);
        else
            erase_forward(ed, number);
        break;
    case 'u':
        undo(ed);
        break;
    case 'r':
        redo(ed);
        break;
    case 's':
        show(ed);
        break;
    default:
        die("unknown order");
    }
}

int main(int argc, char **argv)
{
    static struct editor ed;

    for (int i = 1; i < argc; i++)
        carry_out(&ed, argv[i]);
    printf("%d changes stand, %d can be made again\n", ed.done, ed.undone);
    return 0;
}
