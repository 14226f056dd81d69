// Keeps words in a trie and completes beginnings; when a word is taken out, shorter words that it began with go as well.
// fails: output
// run: +car +cart +care +cat +dog +do +dot ?ca -cart -care +cup -dog -dot ?c ?d %2
// good: +car +cart +care +cat +dog +do +dot ?ca -cart +cup -dog ?c ?d %2
// good: +one +two +three +ten -ten -two ?t ?o %1
// good: +a +ab +abc -ab ?a -x -abcd ?ab %3
// repair: while (depth > 0 && !path[depth]->first && !path[depth]->ends) {
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 32

/* The children of a node are a list, ordered by letter. */
struct node {
    char letter;
    int ends;  /* how often a word that ends here was put in */
    int words; /* how many words end here or below */
    struct node *first;
    struct node *next;
};

struct trie {
    struct node *root;
    int nodes;
    int removed;
};

static struct node *new_node(struct trie *t, char letter)
{
    struct node *n = calloc(1, sizeof *n);
    if (!n)
        exit(2);
    n->letter = letter;
    t->nodes++;
    return n;
}

static struct node *child(const struct node *n, char letter)
{
    for (struct node *c = n->first; c && c->letter <= letter; c = c->next)
        if (c->letter == letter)
            return c;
    return NULL;
}

static struct node *make_child(struct trie *t, struct node *n, char letter)
{
    struct node **link = &n->first;
    while (*link && (*link)->letter < letter)
        link = &(*link)->next;
    if (*link && (*link)->letter == letter)
        return *link;
    struct node *c = new_node(t, letter);
    c->next = *link;
    *link = c;
    return c;
}

static void unlink_child(struct trie *t, struct node *n, struct node *c)
{
    struct node **link = &n->first;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    t->nodes--;
    free(c);
}

/* The nodes from the root to the end of the word; the depth reached, or -1 if the word leads nowhere. */
static int walk(const struct trie *t, const char *word, struct node **path)
{
    int depth = 0;
    path[0] = t->root;
    while (word[depth]) {
        struct node *c = child(path[depth], word[depth]);
        if (!c)
            return -1;
        path[++depth] = c;
    }
    return depth;
}

static void insert(struct trie *t, const char *word)
{
    struct node *path[LONGEST + 1];
    int depth = 0;

    path[0] = t->root;
    for (; word[depth]; depth++)
        path[depth + 1] = make_child(t, path[depth], word[depth]);
    if (path[depth]->ends++ > 0)
        return;
    for (int i = 0; i <= depth; i++)
        path[i]->words++;
}

static int erase(struct trie *t, const char *word)
{
    struct node *path[LONGEST + 1];
    int depth = walk(t, word, path);

    if (depth < 0 || path[depth]->ends == 0)
        return 0;
    path[depth]->ends = 0;
    for (int i = 0; i <= depth; i++)
        path[i]->words--;
    t->removed++;
    /* Nodes that no word needs any longer go. */
    while (depth > 0 && !path[depth]->first) { /* BUG */
        unlink_child(t, path[depth - 1], path[depth]);
        depth--;
    }
    return 1;
}

static void list(const struct node *n, char *word, int length)
{
    if (n->ends) {
        word[length] = 0;
        printf(" %s", word);
        if (n->ends > 1)
            printf("*%d", n->ends);
    }
    for (const struct node *c = n->first; c; c = c->next) {
        word[length] = c->letter;
        list(c, word, length + 1);
    }
}

static void complete(const struct trie *t, const char *beginning)
{
    struct node *path[LONGEST + 1];
    char word[LONGEST + 1];
    int depth = walk(t, beginning, path);

    printf("%s:", beginning);
    if (depth >= 0) {
        strcpy(word, beginning);
        list(path[depth], word, depth);
    } else {
        printf(" nothing");
    }
    printf("\n");
}

/* The beginnings of a length that several words share. */
static int count_shared(const struct node *n, int length)
{
    int sum = 0;
    if (length == 0)
        return n->words > 1;
    for (const struct node *c = n->first; c; c = c->next)
        sum += count_shared(c, length - 1);
    return sum;
}

static void free_all(struct node *n)
{
    while (n->first) {
        struct node *c = n->first;
        n->first = c->next;
        free_all(c);
    }
    free(n);
}

int main(int argc, char **argv)
{
    struct trie t = {0};
    t.root = new_node(&t, 0);

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i] + 1;
        if (strlen(argv[i]) > LONGEST) {
            fprintf(stderr, "dictionary: word too long\n");
            return 2;
        }
        switch (argv[i][0]) {
        case '+':
            insert(&t, word);
            break;
        case '-':
            if (!erase(&t, word))
                printf("%s is not in\n", word);
            break;
        case '?':
            complete(&t, word);
            break;
        case '%':
            printf("shared beginnings of %s: %d\n", word, count_shared(t.root, atoi(word)));
            break;
        default:
            fprintf(stderr, "dictionary: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    printf("%d words, %d nodes, %d taken out\n", t.root->words, t.nodes - 1, t.removed);
    free_all(t.root);
    return 0;
}
