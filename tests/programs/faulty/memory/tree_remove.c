// A binary search tree that is changed by arguments such as +5 and -5; taking out a root with fewer than two children forgets that the root has no parent.
// fails: SIGSEGV
// run: +10 +20 +15 +30 -10 +5
// good: +10 +5 +20 -5 -20 +7
// good: +10 +5 +20 +15 -10 -15
// good: +8 +3 +12 +1 +4 -3 -99 -12
// repair:     if (!parent) t->root = child; else if (parent->left == n)
#include <stdio.h>
#include <stdlib.h>

struct node {
    int key;
    struct node *left, *right;
};

struct tree {
    struct node *root;
    int size;
};

static int insert(struct tree *t, int key)
{
    struct node **at = &t->root;
    while (*at) {
        if (key == (*at)->key)
            return 0;
        at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    }
    *at = calloc(1, sizeof **at);
    if (!*at)
        exit(2);
    (*at)->key = key;
    t->size++;
    return 1;
}

static void replace_child(struct tree *t, struct node *parent, struct node *n, struct node *child)
{
    if (parent->left == n) /* BUG */
        parent->left = child;
    else
        parent->right = child;
}

static int erase(struct tree *t, int key)
{
    struct node *parent = NULL, *n = t->root;
    while (n && n->key != key) {
        parent = n;
        n = key < n->key ? n->left : n->right;
    }
    if (!n)
        return 0;
    if (n->left && n->right) {
        struct node *next = n->right;
        parent = n;
        while (next->left) {
            parent = next;
            next = next->left;
        }
        n->key = next->key;
        n = next;
    }
    replace_child(t, parent, n, n->left ? n->left : n->right);
    free(n);
    t->size--;
    return 1;
}

static void print(const struct node *n, int depth)
{
    if (!n)
        return;
    print(n->left, depth + 1);
    printf("%*s%d\n", 2 * depth, "", n->key);
    print(n->right, depth + 1);
}

int main(int argc, char **argv)
{
    struct tree t = { NULL, 0 };
    for (int i = 1; i < argc; i++) {
        int key = atoi(argv[i] + 1);
        if (argv[i][0] == '+') {
            if (!insert(&t, key))
                printf("%d is there already\n", key);
        } else if (argv[i][0] == '-') {
            if (!erase(&t, key))
                printf("%d is not there\n", key);
        }
    }
    printf("%d keys\n", t.size);
    print(t.root, 0);
    return 0;
}
