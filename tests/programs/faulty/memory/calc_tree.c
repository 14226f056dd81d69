// Evaluates expressions by way of a tree in a growing array; the node of a sum or product is kept as a pointer while the array grows below it.
// fails: output
// run: '1+2*(3+4*(5+6))' '2*(x+(y-3))'
// good: '1+2' '2*y'
// good: '7-x' '(4)'
// good: 'x*y' '3' '9-'
// repair:         t->nodes[id].right = right;
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, NAME, SUM, DIFFERENCE, PRODUCT };

struct node {
    enum kind kind;
    int left, right;
    long value;
    char *name;
};

struct tree {
    struct node *nodes;
    int count, room;
    const char *at;
    int errors;
};

static int parse_sum(struct tree *t);

static int new_node(struct tree *t, enum kind kind, int left)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 3;
        t->nodes = realloc(t->nodes, t->room * sizeof *t->nodes);
        if (!t->nodes)
            exit(2);
    }
    struct node *n = &t->nodes[t->count];
    n->kind = kind;
    n->left = left;
    n->right = left;
    n->value = 0;
    n->name = NULL;
    return t->count++;
}

static int parse_factor(struct tree *t)
{
    if (*t->at == '(') {
        t->at++;
        int inner = parse_sum(t);
        if (*t->at == ')')
            t->at++;
        else
            t->errors++;
        return inner;
    }
    char text[16];
    int n = 0;
    while (isalnum((unsigned char)*t->at) && n < 15)
        text[n++] = *t->at++;
    text[n] = '\0';
    if (n == 0)
        t->errors++;
    int id = new_node(t, isalpha((unsigned char)text[0]) ? NAME : NUMBER, -1);
    t->nodes[id].name = strdup(text);
    t->nodes[id].value = strtol(text, NULL, 10);
    return id;
}

static int parse_product(struct tree *t)
{
    int left = parse_factor(t);
    while (*t->at == '*') {
        t->at++;
        int id = new_node(t, PRODUCT, left);
        struct node *n = &t->nodes[id];
        int right = parse_factor(t);
        n->right = right; /* BUG */
        left = id;
    }
    return left;
}

static int parse_sum(struct tree *t)
{
    int left = parse_product(t);
    while (*t->at == '+' || *t->at == '-') {
        int id = new_node(t, *t->at++ == '+' ? SUM : DIFFERENCE, left);
        int right = parse_product(t);
        t->nodes[id].right = right;
        left = id;
    }
    return left;
}

static long evaluate(const struct tree *t, int id)
{
    const struct node *n = &t->nodes[id];
    switch (n->kind) {
    case NUMBER: return n->value;
    case NAME: return n->name[0] - 'a' + 1;
    case SUM: return evaluate(t, n->left) + evaluate(t, n->right);
    case DIFFERENCE: return evaluate(t, n->left) - evaluate(t, n->right);
    case PRODUCT: return evaluate(t, n->left) * evaluate(t, n->right);
    }
    return 0;
}

static void clear(struct tree *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->nodes[i].name);
    free(t->nodes);
    memset(t, 0, sizeof *t);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct tree t = { 0 };
        t.at = argv[i];
        int root = parse_sum(&t);
        if (*t.at || t.errors)
            printf("%s: not understood\n", argv[i]);
        else
            printf("%s = %ld\n", argv[i], evaluate(&t, root));
        clear(&t);
    }
    return 0;
}
