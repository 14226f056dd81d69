// A calculator with variables turns statements into postfix code and runs it; operators that group to the right are grouped to the left.
// fails: output
// run: 'a = 3' 'b = 2' 'c = 2 ^ b ^ a' 'n = c % 7' 'f = n * (a + b) - 1' 'f' 'max(f, c)'
// good: 'a = 3' 'b = 2' 'c = 2 ^ a * b' 'c - a - b' 'max(c, a ^ 2)'
// good: 'x = 10 - 4 - 3' 'y = x * 2 ^ 5 / 4' 'y % 5' 'abs(-y)'
// good: 'k = -2 ^ 2' 'm = (1 + 2) * (3 + 4)' 'm / 2 / 3' 'min(k, m)' 'm ^ 2 - k'
// repair: return precedence(held) > precedence(next) || (precedence(held) == precedence(next) && !groups_right(next));
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE 128
#define MAX_VARS 32

enum op { OP_NUM, OP_VAR, OP_NEG, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD, OP_POW, OP_CALL, OP_PAREN };

struct instr {
    enum op op;
    long value; /* the number, the variable's slot or the function's index */
};

struct program {
    struct instr code[MAX_CODE];
    int length;
};

struct variable {
    char name[16];
    long value;
};

static struct variable vars[MAX_VARS];
static int var_count;

static const struct {
    const char *name;
    int arity;
} functions[] = {{"abs", 1}, {"min", 2}, {"max", 2}};

#define FUNCTIONS (int)(sizeof functions / sizeof functions[0])

/* The operators that wait for their right side. */
struct pending {
    struct instr items[MAX_CODE];
    int depth;
};

static void die(const char *what, const char *where)
{
    fprintf(stderr, "calc: %s at '%s'\n", what, where);
    exit(2);
}

static int slot_of(const char *name, int length)
{
    for (int i = 0; i < var_count; i++)
        if ((int)strlen(vars[i].name) == length && strncmp(vars[i].name, name, length) == 0)
            return i;
    if (var_count == MAX_VARS || length > 15)
        die("no room for a variable", name);
    memcpy(vars[var_count].name, name, length);
    return var_count++;
}

static int function_of(const char *name, int length)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if ((int)strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
            return i;
    die("no such function", name);
    return -1;
}

static int precedence(enum op op)
{
    switch (op) {
    case OP_ADD:
    case OP_SUB:
        return 1;
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        return 2;
    case OP_NEG:
        return 3;
    case OP_POW:
        return 4;
    default:
        return 0;
    }
}

static int groups_right(enum op op)
{
    return op == OP_POW || op == OP_NEG;
}

static enum op binary_op(char c)
{
    switch (c) {
    case '+': return OP_ADD;
    case '-': return OP_SUB;
    case '*': return OP_MUL;
    case '/': return OP_DIV;
    case '%': return OP_MOD;
    case '^': return OP_POW;
    default: return OP_NUM;
    }
}

/* Whether the operator on the stack is carried out before the one that comes next. */
static int goes_first(enum op held, enum op next)
{
    if (held == OP_PAREN || held == OP_CALL)
        return 0;
    return precedence(held) >= precedence(next) || (precedence(held) == precedence(next) && !groups_right(next)); /* BUG */
}

static void emit(struct program *p, enum op op, long value)
{
    if (p->length == MAX_CODE)
        die("too long", "");
    p->code[p->length].op = op;
    p->code[p->length].value = value;
    p->length++;
}

static void push(struct pending *s, enum op op, long value)
{
    if (s->depth == MAX_CODE)
        die("too deep", "");
    s->items[s->depth].op = op;
    s->items[s->depth].value = value;
    s->depth++;
}

static void unwind(struct pending *s, struct program *p, enum op next)
{
    while (s->depth > 0 && goes_first(s->items[s->depth - 1].op, next)) {
        s->depth--;
        emit(p, s->items[s->depth].op, s->items[s->depth].value);
    }
}

static void close_group(struct pending *s, struct program *p, const char *at)
{
    while (s->depth > 0 && s->items[s->depth - 1].op != OP_PAREN) {
        s->depth--;
        emit(p, s->items[s->depth].op, s->items[s->depth].value);
    }
    if (s->depth == 0)
        die("no open bracket", at);
}

static void translate(const char *s, struct program *p)
{
    struct pending wait = {.depth = 0};
    int operand_next = 1;

    while (*s) {
        if (isspace((unsigned char)*s)) {
            s++;
        } else if (isdigit((unsigned char)*s)) {
            char *end;
            emit(p, OP_NUM, strtol(s, &end, 10));
            s = end;
            operand_next = 0;
        } else if (isalpha((unsigned char)*s)) {
            int n = 0;
            while (isalnum((unsigned char)s[n]))
                n++;
            if (s[n] == '(') {
                push(&wait, OP_CALL, function_of(s, n));
            } else {
                emit(p, OP_VAR, slot_of(s, n));
                operand_next = 0;
            }
            s += n;
        } else if (*s == '(') {
            push(&wait, OP_PAREN, 0);
            s++;
        } else if (*s == ',') {
            close_group(&wait, p, s);
            operand_next = 1;
            s++;
        } else if (*s == ')') {
            close_group(&wait, p, s);
            wait.depth--;
            if (wait.depth > 0 && wait.items[wait.depth - 1].op == OP_CALL) {
                wait.depth--;
                emit(p, OP_CALL, wait.items[wait.depth].value);
            }
            operand_next = 0;
            s++;
        } else if (operand_next && *s == '-') {
            push(&wait, OP_NEG, 0);
            s++;
        } else {
            enum op op = binary_op(*s);
            if (op == OP_NUM || operand_next)
                die("not understood", s);
            unwind(&wait, p, op);
            push(&wait, op, 0);
            operand_next = 1;
            s++;
        }
    }
    while (wait.depth > 0) {
        wait.depth--;
        if (wait.items[wait.depth].op == OP_PAREN)
            die("bracket not closed", s);
        emit(p, wait.items[wait.depth].op, wait.items[wait.depth].value);
    }
}

static long power(long base, long exponent)
{
    long result = 1;
    while (exponent-- > 0)
        result *= base;
    return result;
}

static long call(int function, const long *args)
{
    switch (function) {
    case 0: return args[0] < 0 ? -args[0] : args[0];
    case 1: return args[0] < args[1] ? args[0] : args[1];
    default: return args[0] > args[1] ? args[0] : args[1];
    }
}

static long run(const struct program *p)
{
    long stack[MAX_CODE];
    int n = 0;

    for (int i = 0; i < p->length; i++) {
        struct instr in = p->code[i];
        int takes = in.op == OP_NUM || in.op == OP_VAR ? 0 : in.op == OP_NEG ? 1 : in.op == OP_CALL ? functions[in.value].arity : 2;
        if (n < takes)
            die("operand missing", "");
        n -= takes;
        long *a = &stack[n];
        switch (in.op) {
        case OP_NUM: a[0] = in.value; break;
        case OP_VAR: a[0] = vars[in.value].value; break;
        case OP_NEG: a[0] = -a[0]; break;
        case OP_ADD: a[0] = a[0] + a[1]; break;
        case OP_SUB: a[0] = a[0] - a[1]; break;
        case OP_MUL: a[0] = a[0] * a[1]; break;
        case OP_POW: a[0] = power(a[0], a[1]); break;
        case OP_CALL: a[0] = call(in.value, a); break;
        default:
            if (a[1] == 0)
                die("division by zero", "");
            a[0] = in.op == OP_DIV ? a[0] / a[1] : a[0] % a[1];
        }
        n++;
    }
    if (n != 1)
        die("no single result", "");
    return stack[0];
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        const char *equals = strchr(text, '=');
        struct program p = {.length = 0};

        if (equals) {
            int n = 0;
            while (isalnum((unsigned char)text[n]))
                n++;
            int slot = slot_of(text, n);
            translate(equals + 1, &p);
            vars[slot].value = run(&p);
        } else {
            translate(text, &p);
            printf("%s -> %ld\n", text, run(&p));
        }
    }
    return 0;
}
