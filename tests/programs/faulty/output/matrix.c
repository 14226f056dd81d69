// Splits a matrix into two triangles, solves equations with it and inverts it; the columns of the inverse are set up with the exchange of rows the wrong way round.
// fails: output
// run: '1 4 2 0;2 1 0 3;5 1 1 2;0 2 6 1' det solve 1 2 3 4 inverse
// good: '4 1 0;1 5 2;0 2 6' det solve 1 0 3 inverse
// good: '1 2 0;3 1 1;0 1 4' det inverse solve 5 5 5
// good: '0 1;2 3' inverse det
// good: '0 2 1 4;1 1 0 2;3 0 2 1;2 5 1 0' det inverse
// good: '1 4 2 0;2 1 0 3;5 1 1 2;0 2 6 1' det solve 4 3 2 1 solve 1 1 1 1
// repair: x[i] = s->order[i] == column ? 1.0 : 0.0;
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 8

struct matrix {
    int size;
    double at[MAX][MAX];
};

/* The lower triangle, without its ones, and the upper one share a matrix.
   `order` tells which row of the first matrix each row was. */
struct split {
    struct matrix both;
    int order[MAX];
    int exchanges;
    int singular;
};

static void die(const char *what)
{
    fprintf(stderr, "matrix: %s\n", what);
    exit(2);
}

static struct matrix read_matrix(const char *text)
{
    struct matrix m = {.size = 0};
    int row = 0, column = 0;

    while (*text) {
        char *end;
        if (*text == ';') {
            if (row == 0)
                m.size = column;
            if (column != m.size)
                die("rows of different lengths");
            row++;
            column = 0;
            text++;
            continue;
        }
        double v = strtod(text, &end);
        if (end == text)
            die("not a number");
        if (row == MAX || column == MAX)
            die("too large");
        m.at[row][column++] = v;
        text = end;
        while (*text == ' ')
            text++;
    }
    if (row == 0)
        m.size = column;
    if (row + 1 != m.size || column != m.size)
        die("not square");
    return m;
}

static void exchange_rows(struct split *s, int a, int b)
{
    int n = s->both.size;
    for (int k = 0; k < n; k++) {
        double t = s->both.at[a][k];
        s->both.at[a][k] = s->both.at[b][k];
        s->both.at[b][k] = t;
    }
    int t = s->order[a];
    s->order[a] = s->order[b];
    s->order[b] = t;
    s->exchanges++;
}

static int largest_below(const struct matrix *m, int column)
{
    int best = column;
    for (int i = column + 1; i < m->size; i++)
        if (fabs(m->at[i][column]) > fabs(m->at[best][column]))
            best = i;
    return best;
}

static struct split split(const struct matrix *m)
{
    struct split s = {.both = *m};
    int n = m->size;

    for (int i = 0; i < n; i++)
        s.order[i] = i;
    for (int c = 0; c < n; c++) {
        int pivot = largest_below(&s.both, c);
        if (fabs(s.both.at[pivot][c]) < 1e-12) {
            s.singular = 1;
            continue;
        }
        if (pivot != c)
            exchange_rows(&s, pivot, c);
        for (int i = c + 1; i < n; i++) {
            double factor = s.both.at[i][c] / s.both.at[c][c];
            s.both.at[i][c] = factor;
            for (int k = c + 1; k < n; k++)
                s.both.at[i][k] -= factor * s.both.at[c][k];
        }
    }
    return s;
}

/* Takes the right side, in the order of the split rows, and leaves the solution there. */
static void substitute(const struct split *s, double *x)
{
    int n = s->both.size;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            x[i] -= s->both.at[i][k] * x[k];
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            x[i] -= s->both.at[i][k] * x[k];
        x[i] /= s->both.at[i][i];
    }
}

static void solve(const struct split *s, const double *right, double *x)
{
    for (int i = 0; i < s->both.size; i++)
        x[i] = right[s->order[i]];
    substitute(s, x);
}

static struct matrix invert(const struct split *s)
{
    int n = s->both.size;
    struct matrix inverse = {.size = n};
    double x[MAX];

    for (int column = 0; column < n; column++) {
        for (int i = 0; i < n; i++)
            x[i] = s->order[column] == i ? 1.0 : 0.0; /* BUG */
        substitute(s, x);
        for (int i = 0; i < n; i++)
            inverse.at[i][column] = x[i];
    }
    return inverse;
}

static double determinant(const struct split *s)
{
    double d = s->exchanges % 2 ? -1.0 : 1.0;
    for (int i = 0; i < s->both.size; i++)
        d *= s->both.at[i][i];
    return d;
}

static void print_number(double v)
{
    if (fabs(v) < 5e-5)
        v = 0.0;
    printf(" %9.4f", v);
}

static void print_matrix(const struct matrix *m)
{
    for (int i = 0; i < m->size; i++) {
        for (int k = 0; k < m->size; k++)
            print_number(m->at[i][k]);
        printf("\n");
    }
}

/* The largest sum over a row. */
static double norm(const struct matrix *m)
{
    double most = 0;
    for (int i = 0; i < m->size; i++) {
        double sum = 0;
        for (int k = 0; k < m->size; k++)
            sum += fabs(m->at[i][k]);
        if (sum > most)
            most = sum;
    }
    return most;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("a matrix, please");
    struct matrix m = read_matrix(argv[1]);
    struct split s = split(&m);

    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "det") == 0) {
            printf("determinant");
            print_number(determinant(&s));
            printf("\n");
        } else if (s.singular) {
            printf("singular\n");
            break;
        } else if (strcmp(argv[i], "solve") == 0) {
            double right[MAX], x[MAX];
            for (int k = 0; k < m.size; k++)
                right[k] = ++i < argc ? atof(argv[i]) : 0.0;
            solve(&s, right, x);
            printf("solution");
            for (int k = 0; k < m.size; k++)
                print_number(x[k]);
            printf("\n");
        } else if (strcmp(argv[i], "inverse") == 0) {
            struct matrix inverse = invert(&s);
            printf("inverse\n");
            print_matrix(&inverse);
            printf("condition");
            print_number(norm(&m) * norm(&inverse));
            printf("\n");
        } else {
            die("unknown order");
        }
    }
    return 0;
}
