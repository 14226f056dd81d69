// A small register machine whose programs are given as numbers; the check of the operation's number lets one number too many through.
// fails: SIGSEGV
// run: 1 0 7 1 1 5 2 0 1 6 0 3
// good: 1 0 7 1 1 5 2 0 1 5 0 0
// good: 1 0 3 1 1 4 3 0 1 5 0 0 9 0 0
// good: 1 2 100 1 3 1 4 2 3 5 2 0 0 0 0 5 2 0
// repair:         if (op < 0 || op >= OP_COUNT) {
#include <stdio.h>
#include <stdlib.h>

enum { OP_STOP, OP_SET, OP_ADD, OP_MUL, OP_SUB, OP_PRINT, OP_COUNT };

struct machine;
typedef int (*operation)(struct machine *m, long a, long b);

struct machine {
    operation ops[OP_COUNT];
    long regs[4];
    long steps;
};

static long *reg(struct machine *m, long n)
{
    return &m->regs[n & 3];
}

static int do_stop(struct machine *m, long a, long b)
{
    return 1;
}

static int do_set(struct machine *m, long a, long b)
{
    *reg(m, a) = b;
    return 0;
}

static int do_add(struct machine *m, long a, long b)
{
    *reg(m, a) += *reg(m, b);
    return 0;
}

static int do_mul(struct machine *m, long a, long b)
{
    *reg(m, a) *= *reg(m, b);
    return 0;
}

static int do_sub(struct machine *m, long a, long b)
{
    *reg(m, a) -= *reg(m, b);
    return 0;
}

static int do_print(struct machine *m, long a, long b)
{
    printf("r%ld = %ld\n", a & 3, *reg(m, a));
    return 0;
}

static void machine_init(struct machine *m)
{
    m->ops[OP_STOP] = do_stop;
    m->ops[OP_SET] = do_set;
    m->ops[OP_ADD] = do_add;
    m->ops[OP_MUL] = do_mul;
    m->ops[OP_SUB] = do_sub;
    m->ops[OP_PRINT] = do_print;
    for (int i = 0; i < 4; i++)
        m->regs[i] = 0;
    m->steps = 0;
}

static int execute(struct machine *m, const long *code, int length)
{
    for (int pc = 0; pc + 2 < length; pc += 3) {
        long op = code[pc];
        if (op < 0 || op > OP_COUNT) { /* BUG */
            printf("unknown operation %ld at %d\n", op, pc);
            return -1;
        }
        m->steps++;
        if (m->ops[op](m, code[pc + 1], code[pc + 2]))
            break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct machine m;
    long code[96];
    int length = 0;
    for (int i = 1; i < argc && length < 96; i++)
        code[length++] = strtol(argv[i], NULL, 10);
    machine_init(&m);
    if (execute(&m, code, length) == 0)
        printf("done after %ld steps\n", m.steps);
    else
        printf("given up after %ld steps\n", m.steps);
    return 0;
}
