// Expands tabs (written as ^ in the arguments) to columns; the room in the local line is checked for the next character but not for the whole of a tab.
// fails: SIGABRT
// run: 12 a^b abc^^d ^^^^^^^^^x
// good: 8 a^b abc^^d
// good: 4 ^^^^^^^^^x a^b
// good: 2 abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz
// good: 8 ^^one ^two^three^four
// repair:             while (col < stop && col < LINE - 1)
// flags: -fstack-protector-strong
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 56

struct totals {
    int lines, chars, tabs, cut;
};

static int next_stop(int col, int width)
{
    return (col / width + 1) * width;
}

static int blanks(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += *s == ' ';
    return n;
}

static int expand(const char *in, int width, struct totals *t)
{
    char line[LINE];
    int col = 0;
    const char *p;
    for (p = in; *p && col < LINE - 1; p++) {
        if (*p == '^') {
            int stop = next_stop(col, width);
            t->tabs++;
            while (col < stop) /* BUG */
                line[col++] = ' ';
        } else {
            line[col++] = *p;
        }
    }
    line[col] = '\0';
    if (*p)
        t->cut++;
    printf("|%s| %d columns, %d blanks\n", line, col, blanks(line));
    return col;
}

int main(int argc, char **argv)
{
    struct totals t = { 0, 0, 0, 0 };
    int width = argc > 1 ? atoi(argv[1]) : 8;
    if (width < 1 || width > 16) {
        fprintf(stderr, "width must be from 1 to 16\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        t.chars += expand(argv[i], width, &t);
        t.lines++;
    }
    printf("%d lines, %d columns, %d tabs, %d cut\n", t.lines, t.chars, t.tabs, t.cut);
    return 0;
}
