// Takes comments and spare blanks out of C text and counts its tokens; a string that ends with an escaped backslash is read on past its end.
// fails: output
// run: 'char sep = 0; // the mark' 'const char *root = "C:\\"; /* the drive */' 'puts ( root ) ; // "shown"' 'return  sep == 0 ; /* done' 'here */ }'
// good: 'char sep = 0; // the mark' 'const char *root = "/usr"; /* the tree */' 'puts ( root ) ; // "shown"' 'return  sep == 0 ;'
// good: 'puts("say \"hi\" // not a comment");  n ++ ;' "if (c == '\\n') /* line */ return 'x' ;"
// good: 'printf ( "%d\\%d\n" , a , b ) ; // both' 'x = a / b / c ; /* two' 'lines */ y -- ;'
// repair: while (*s && *s != quote) s += *s == '\\' && s[1] ? 2 : 1;
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NAME, NUMBER, STRING, LETTER, MARK, COMMENT, KINDS };

static const char *const kind_names[KINDS] = {"names", "numbers", "strings", "letters", "marks", "comments"};

struct token {
    enum kind kind;
    const char *text;
    int length;
    int line;
};

struct list {
    struct token *items;
    int count;
    int room;
};

struct reader {
    const char *at;
    int line;
};

static const char *const long_marks[] = {"<<=", ">>=", "...", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "++", "--", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};

static void add(struct list *l, struct token t)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 32;
        l->items = realloc(l->items, l->room * sizeof *l->items);
        if (!l->items)
            exit(2);
    }
    l->items[l->count++] = t;
}

static void skip_blanks(struct reader *r)
{
    while (isspace((unsigned char)*r->at)) {
        if (*r->at == '\n')
            r->line++;
        r->at++;
    }
}

/* From the opening quote to the one that closes it, both included. */
static int quoted_length(const char *start)
{
    char quote = *start;
    const char *s = start + 1;

    while (*s && !(*s == quote && s[-1] != '\\')) s++; /* BUG */
    return (int)(s - start) + (*s == quote);
}

static int comment_length(const char *start)
{
    if (start[1] == '/')
        return (int)strcspn(start, "\n");
    const char *end = strstr(start + 2, "*/");
    return end ? (int)(end + 2 - start) : (int)strlen(start);
}

static int word_length(const char *start)
{
    int n = 0;
    while (isalnum((unsigned char)start[n]) || start[n] == '_' || (start[n] == '.' && isdigit((unsigned char)start[0])))
        n++;
    return n;
}

static int mark_length(const char *start)
{
    for (size_t i = 0; i < sizeof long_marks / sizeof long_marks[0]; i++) {
        size_t n = strlen(long_marks[i]);
        if (strncmp(start, long_marks[i], n) == 0)
            return (int)n;
    }
    return 1;
}

static int next_token(struct reader *r, struct token *t)
{
    skip_blanks(r);
    const char *s = r->at;
    if (!*s)
        return 0;
    t->text = s;
    t->line = r->line;
    if (*s == '"' || *s == '\'') {
        t->kind = *s == '"' ? STRING : LETTER;
        t->length = quoted_length(s);
    } else if (*s == '/' && (s[1] == '/' || s[1] == '*')) {
        t->kind = COMMENT;
        t->length = comment_length(s);
    } else if (isalpha((unsigned char)*s) || *s == '_') {
        t->kind = NAME;
        t->length = word_length(s);
    } else if (isdigit((unsigned char)*s)) {
        t->kind = NUMBER;
        t->length = word_length(s);
    } else {
        t->kind = MARK;
        t->length = mark_length(s);
    }
    for (int i = 0; i < t->length; i++)
        if (s[i] == '\n')
            r->line++;
    r->at += t->length;
    return 1;
}

static int is_word(const struct token *t)
{
    return t->kind == NAME || t->kind == NUMBER;
}

/* Whether the two would become something else without a blank between them. */
static int needs_blank(const struct token *a, const struct token *b)
{
    if (is_word(a) && is_word(b))
        return 1;
    if (a->kind == MARK && b->kind == MARK) {
        char last = a->text[a->length - 1];
        return strchr("+-<>&|/", last) && b->text[0] == last;
    }
    return 0;
}

static void print_short(const struct list *l)
{
    const struct token *before = NULL;

    for (int i = 0; i < l->count; i++) {
        const struct token *t = &l->items[i];
        if (t->kind == COMMENT)
            continue;
        if (before && t->line != before->line)
            putchar('\n');
        else if (before && needs_blank(before, t))
            putchar(' ');
        printf("%.*s", t->length, t->text);
        before = t;
    }
    putchar('\n');
}

static void print_counts(const struct list *l)
{
    int counts[KINDS] = {0};

    for (int i = 0; i < l->count; i++)
        counts[l->items[i].kind]++;
    for (int k = 0; k < KINDS; k++)
        if (counts[k])
            printf("%s: %d\n", kind_names[k], counts[k]);
}

static char *join(int count, char **lines)
{
    size_t length = 1;
    for (int i = 0; i < count; i++)
        length += strlen(lines[i]) + 1;
    char *text = malloc(length);
    char *end = text;
    for (int i = 0; i < count; i++)
        end += sprintf(end, "%s\n", lines[i]);
    *end = 0;
    return text;
}

int main(int argc, char **argv)
{
    char *text = join(argc - 1, argv + 1);
    struct reader r = {text, 1};
    struct list all = {0};
    struct token t;

    while (next_token(&r, &t))
        add(&all, t);
    print_short(&all);
    print_counts(&all);
    printf("lines: %d\n", r.line - 1);
    free(all.items);
    free(text);
    return 0;
}
