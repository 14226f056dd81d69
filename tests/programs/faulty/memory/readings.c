// Keeps readings by sensor in blocks that grow, and forgets a sensor's readings on request; what is forgotten keeps its number of readings, so that the next one is stored beyond a new block.
// fails: output
// run: a=1 a=2 a=3 a=4 a=5 a=6 a=7 b=9 a! a=8 a=9 c=1 a? b?
// good: a=1 b=2 a=3 a? b?
// good: a=1 a=2 a=3 a=4 a=5 a! b=1 b?
// good: c=4 c? c!
// repair:     free(s->values); s->values = NULL; s->room = 0; s->count = 0;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENSORS 26

struct sensor {
    int count, room;
    long *values;
};

struct station {
    struct sensor sensors[SENSORS];
    int refused;
};

static void grow(struct sensor *s)
{
    int room = s->room ? 2 * s->room : 2;
    long *values = realloc(s->values, room * sizeof *values);
    if (!values)
        exit(2);
    s->values = values;
    s->room = room;
}

static void take(struct sensor *s, long value)
{
    if (s->count == s->room || !s->values)
        grow(s);
    s->values[s->count++] = value;
}

static void forget(struct sensor *s)
{
    free(s->values); s->values = NULL; s->room = 0; /* BUG */
}

static void show(const struct sensor *s, char name)
{
    long sum = 0, most = 0;
    for (int i = 0; i < s->count; i++) {
        sum += s->values[i];
        if (s->values[i] > most)
            most = s->values[i];
    }
    printf("%c: %d readings, %ld in all, at most %ld\n", name, s->count, sum, most);
}

static void command(struct station *st, const char *text)
{
    int at = text[0] - 'a';
    if (at < 0 || at >= SENSORS) {
        st->refused++;
        return;
    }
    struct sensor *s = &st->sensors[at];
    switch (text[1]) {
    case '=': take(s, strtol(text + 2, NULL, 10)); break;
    case '!': forget(s); break;
    case '?': show(s, text[0]); break;
    default: st->refused++;
    }
}

int main(int argc, char **argv)
{
    static struct station st;
    for (int i = 1; i < argc; i++)
        command(&st, argv[i]);
    for (int i = 0; i < SENSORS; i++)
        free(st.sensors[i].values);
    printf("%d refused\n", st.refused);
    return 0;
}
