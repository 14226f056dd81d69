// Prints departures with a note on each line's state; the note of a state that is not in the table lies in the frame of the function that made it.
// fails: output
// run: 10:0 11:2 12:7 13:1 14:9
// good: 10:0 11:2 13:1
// good: 7:3 7:0
// good: 1:1 2:2 3:3 4:0
// repair:         n->text = strdup(text);
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 12

struct note {
    const char *text;
    int severe;
};

struct departure {
    int line, state, minute;
    struct note note;
};

struct board {
    struct departure rows[MAX_LINES];
    int count, severe;
};

static const char *const states[] = { "on time", "late", "diverted", "cancelled" };

static void make_note(struct note *n, int state)
{
    char text[32];
    n->severe = state >= 2;
    if (state >= 0 && state < (int)(sizeof states / sizeof states[0])) {
        n->text = states[state];
    } else {
        snprintf(text, sizeof text, "state %d", state);
        n->text = text; /* BUG */
    }
}

static int minute_for(int line)
{
    int minute = 5;
    for (int i = 0; i < line; i++)
        minute = (minute * 7 + 3) % 60;
    return minute;
}

static int add(struct board *b, int line, int state)
{
    if (b->count == MAX_LINES)
        return -1;
    struct departure *d = &b->rows[b->count++];
    d->line = line;
    d->state = state;
    make_note(&d->note, state);
    d->minute = minute_for(line);
    b->severe += d->note.severe;
    return 0;
}

static int by_minute(const void *a, const void *b)
{
    const struct departure *x = a, *y = b;
    if (x->minute != y->minute)
        return x->minute - y->minute;
    return x->line - y->line;
}

static void show(struct board *b)
{
    qsort(b->rows, b->count, sizeof b->rows[0], by_minute);
    for (int i = 0; i < b->count; i++) {
        const struct departure *d = &b->rows[i];
        printf("%02d line %-3d %.20s%s\n", d->minute, d->line, d->note.text, d->note.severe ? " !" : "");
    }
    printf("%d departures, %d with trouble\n", b->count, b->severe);
}

int main(int argc, char **argv)
{
    struct board b;
    memset(&b, 0, sizeof b);
    for (int i = 1; i < argc; i++) {
        int line, state;
        if (sscanf(argv[i], "%d:%d", &line, &state) != 2 || line < 0 || line > 999)
            printf("cannot read %s\n", argv[i]);
        else
            add(&b, line, state);
    }
    show(&b);
    return 0;
}
