// Finds the shortest way through a maze read from standard input, from a start given by number; the lower edge of the maze is checked one row too far down.
// fails: SIGSEGV
// run: 3
// good: 1
// good: 2
// good: 9
// repair:     if (y < 0 || y >= m->height || x < 0 || x >= m->width)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 40
#define MAX_COLS 80

struct maze {
    char *rows[MAX_ROWS + 1];
    int width, height;
};

struct place {
    int y, x, steps;
};

struct queue {
    struct place items[MAX_ROWS * MAX_COLS];
    int head, tail;
};

static const int step_y[] = { 0, 1, 0, -1 };
static const int step_x[] = { 1, 0, -1, 0 };

static int load(struct maze *m, FILE *in)
{
    char line[MAX_COLS + 2];
    while (m->height < MAX_ROWS && fgets(line, sizeof line, in)) {
        int n = strcspn(line, "\n");
        line[n] = '\0';
        if (n == 0)
            break;
        if (m->height == 0)
            m->width = n;
        else if (n != m->width)
            return -1;
        m->rows[m->height] = malloc(n + 1);
        if (!m->rows[m->height])
            return -1;
        memcpy(m->rows[m->height], line, n + 1);
        m->height++;
    }
    return m->height > 0 ? 0 : -1;
}

static void unload(struct maze *m)
{
    for (int y = 0; y < m->height; y++)
        free(m->rows[y]);
}

static int find(const struct maze *m, char c, int *fy, int *fx)
{
    for (int y = 0; y < m->height; y++) {
        const char *p = strchr(m->rows[y], c);
        if (p) {
            *fy = y;
            *fx = p - m->rows[y];
            return 1;
        }
    }
    return 0;
}

static int open_at(const struct maze *m, int y, int x)
{
    if (y < 0 || y > m->height || x < 0 || x >= m->width) /* BUG */
        return 0;
    return m->rows[y][x] != '#';
}

static void push(struct queue *q, int y, int x, int steps)
{
    struct place *p = &q->items[q->tail++];
    p->y = y;
    p->x = x;
    p->steps = steps;
}

static int solve(struct maze *m, int sy, int sx, int *seen)
{
    static struct queue q;
    push(&q, sy, sx, 0);
    m->rows[sy][sx] = '#';
    while (q.head < q.tail) {
        struct place here = q.items[q.head++];
        ++*seen;
        for (int d = 0; d < 4; d++) {
            int y = here.y + step_y[d], x = here.x + step_x[d];
            if (!open_at(m, y, x))
                continue;
            if (m->rows[y][x] == 'E')
                return here.steps + 1;
            m->rows[y][x] = '#';
            push(&q, y, x, here.steps + 1);
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    static struct maze m;
    int y, x, seen = 0;
    if (load(&m, stdin) < 0) {
        fprintf(stderr, "bad maze\n");
        return 2;
    }
    char start = argc > 1 ? argv[1][0] : '1';
    if (!find(&m, start, &y, &x)) {
        printf("no start %c in %d by %d\n", start, m.width, m.height);
    } else {
        int steps = solve(&m, y, x, &seen);
        if (steps < 0)
            printf("no way out, %d places seen\n", seen);
        else
            printf("%d steps, %d places seen\n", steps, seen);
    }
    unload(&m);
    return 0;
}
