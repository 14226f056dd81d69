// Assembles small programs for a sixteen-bit machine and runs them; the sign of an immediate number is taken from the wrong bit.
// fails: output
// run: dice 90 7 251
// good: dice 90 7 127
// good: primes 100
// good: collatz 27
// good: gcd 84 36
// good: digits 31415
// good: collatz 200
// repair: if (raw & 0x100)
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY 2048
#define MAX_LABELS 64
#define MAX_STEPS 200000

/* An instruction: four bits for the operation, three for a register, nine for a number or a second register. */
enum op { HALT, SET, COPY, ADD, SUB, MUL, DIV, MOD, ADDI, LOAD, STORE, JUMP, JZERO, JNEG, PRINT, SHIFT, OPS };

static const char *const op_names[OPS] = {"halt", "set", "copy", "add", "sub", "mul", "div", "mod", "addi", "load", "store", "jump", "jzero", "jneg", "print", "shift"};

struct label {
    char name[16];
    int address;
};

struct machine {
    unsigned short code[MEMORY];
    short data[MEMORY];
    short regs[8];
    int pc;
    long steps;
    long used[OPS];
    int low, high; /* the addresses of data that were used */
};

struct assembler {
    struct label labels[MAX_LABELS];
    int label_count;
    int address;
    int pass;
    unsigned short *code;
    int argc;
    char **argv;
};

struct sample {
    const char *name;
    const char *text;
};

/* $1 and $2 stand for the arguments. Large ones are put together from two parts, $1h and $1l. */
static const struct sample samples[] = {
    {"primes",
     "       set r1 2\n"
     "       set r0 $1\n"
     "outer: copy r2 r0\n"
     "       sub r2 r1\n"
     "       jneg r2 done\n"
     "       load r3 r1\n"
     "       jzero r3 prime\n"
     "next:  addi r1 1\n"
     "       jump r0 outer\n"
     "prime: print r1\n"
     "       addi r6 1\n"
     "       copy r4 r1\n"
     "       set r5 1\n"
     "mark:  add r4 r1\n"
     "       copy r2 r0\n"
     "       sub r2 r4\n"
     "       jneg r2 next\n"
     "       store r5 r4\n"
     "       jump r0 mark\n"
     "done:  print r6\n"
     "       halt\n"},
    {"collatz",
     "       set r1 $1h\n"
     "       shift r1 7\n"
     "       addi r1 $1l\n"
     "       set r3 2\n"
     "loop:  copy r2 r1\n"
     "       addi r2 -1\n"
     "       jzero r2 done\n"
     "       addi r5 1\n"
     "       copy r2 r1\n"
     "       mod r2 r3\n"
     "       jzero r2 even\n"
     "       set r4 3\n"
     "       mul r1 r4\n"
     "       addi r1 1\n"
     "       jump r0 loop\n"
     "even:  div r1 r3\n"
     "       jump r0 loop\n"
     "done:  print r5\n"
     "       halt\n"},
    {"gcd",
     "       set r1 $1\n"
     "       set r2 $2\n"
     "loop:  jzero r2 done\n"
     "       copy r3 r1\n"
     "       mod r3 r2\n"
     "       copy r1 r2\n"
     "       copy r2 r3\n"
     "       print r1\n"
     "       jump r0 loop\n"
     "done:  print r1\n"
     "       halt\n"},
    {"dice",
     "       set r1 $1\n"
     "       set r4 $2\n"
     "loop:  jzero r1 done\n"
     "       addi r1 -1\n"
     "       set r2 71\n"
     "       mul r4 r2\n"
     "       addi r4 11\n"
     "       set r2 $3\n"
     "       mod r4 r2\n"
     "       copy r5 r4\n"
     "       set r2 6\n"
     "       mod r5 r2\n"
     "       load r3 r5\n"
     "       addi r3 1\n"
     "       store r3 r5\n"
     "       jump r0 loop\n"
     "done:  set r2 6\n"
     "show:  jzero r2 end\n"
     "       load r3 r1\n"
     "       print r3\n"
     "       addi r1 1\n"
     "       addi r2 -1\n"
     "       jump r0 show\n"
     "end:   halt\n"},
    {"digits",
     "       set r1 $1h\n"
     "       shift r1 7\n"
     "       addi r1 $1l\n"
     "       set r2 10\n"
     "loop:  copy r3 r1\n"
     "       mod r3 r2\n"
     "       add r4 r3\n"
     "       div r1 r2\n"
     "       jzero r1 done\n"
     "       jump r0 loop\n"
     "done:  print r4\n"
     "       halt\n"},
};

static void die(const char *what, const char *which)
{
    fprintf(stderr, "machine: %s: %s\n", what, which);
    exit(2);
}

static int find_op(const char *name)
{
    for (int i = 0; i < OPS; i++)
        if (strcmp(op_names[i], name) == 0)
            return i;
    die("no such operation", name);
    return -1;
}

static int takes_register(enum op op)
{
    return (op >= COPY && op <= MOD) || op == LOAD || op == STORE;
}

static void define(struct assembler *as, const char *name)
{
    if (as->pass != 1)
        return;
    if (as->label_count == MAX_LABELS || strlen(name) > 15)
        die("label", name);
    struct label *l = &as->labels[as->label_count++];
    strcpy(l->name, name);
    l->address = as->address;
}

static int label_address(const struct assembler *as, const char *name)
{
    for (int i = 0; i < as->label_count; i++)
        if (strcmp(as->labels[i].name, name) == 0)
            return as->labels[i].address;
    die("no such label", name);
    return 0;
}

static int argument(const struct assembler *as, const char *text)
{
    int n = text[1] - '1';
    if (n < 0 || n >= as->argc)
        die("argument missing", text);
    int value = atoi(as->argv[n]);
    if (text[2] == 'h')
        return value >> 7;
    if (text[2] == 'l')
        return value & 0x7f;
    return value;
}

static int operand(const struct assembler *as, enum op op, const char *text)
{
    int value;

    if (takes_register(op)) {
        if (text[0] != 'r' || text[1] < '0' || text[1] > '7')
            die("register", text);
        return text[1] - '0';
    }
    if (op == JUMP || op == JZERO || op == JNEG)
        value = as->pass == 1 ? 0 : label_address(as, text) - as->address - 1;
    else if (text[0] == '$')
        value = argument(as, text);
    else
        value = atoi(text);
    if (value < -256 || value > 255)
        die("number too large", text);
    return value & 0x1ff;
}

static void assemble_line(struct assembler *as, char *line)
{
    char *words[4];
    int n = 0;

    for (char *w = strtok(line, " "); w && n < 4; w = strtok(NULL, " "))
        words[n++] = w;
    int first = 0;
    if (n > 0 && words[0][strlen(words[0]) - 1] == ':') {
        words[0][strlen(words[0]) - 1] = 0;
        define(as, words[0]);
        first = 1;
    }
    if (first == n)
        return;
    enum op op = find_op(words[first]);
    unsigned code = op << 12;
    if (first + 1 < n)
        code |= (words[first + 1][1] - '0') << 9;
    if (first + 2 < n)
        code |= operand(as, op, words[first + 2]);
    as->code[as->address++] = (unsigned short)code;
}

static void assemble(struct assembler *as, const char *text)
{
    for (as->pass = 1; as->pass <= 2; as->pass++) {
        const char *p = text;
        as->address = 0;
        while (*p) {
            char line[64];
            int n = (int)strcspn(p, "\n");
            snprintf(line, sizeof line, "%.*s", n, p);
            assemble_line(as, line);
            p += n + (p[n] == '\n');
        }
    }
}

static int immediate(unsigned short code)
{
    int raw = code & 0x1ff;
    if (raw & 0x80) /* BUG */
        raw -= 0x200;
    return raw;
}

static int address(const struct machine *m, int reg)
{
    int a = m->regs[reg];
    if (a < 0 || a >= MEMORY)
        die("address", "outside of memory");
    return a;
}

static short *cell(struct machine *m, int reg)
{
    int a = address(m, reg);
    if (m->low > m->high)
        m->low = m->high = a;
    if (a < m->low)
        m->low = a;
    if (a > m->high)
        m->high = a;
    return &m->data[a];
}

static int divisor(const struct machine *m, int reg)
{
    if (m->regs[reg] == 0)
        die("division", "by zero");
    return m->regs[reg];
}

static int step(struct machine *m)
{
    unsigned short code = m->code[m->pc++];
    int a = code >> 9 & 7, b = code & 7;
    m->used[code >> 12]++;

    switch ((enum op)(code >> 12)) {
    case HALT: return 0;
    case SET: m->regs[a] = immediate(code); break;
    case COPY: m->regs[a] = m->regs[b]; break;
    case ADD: m->regs[a] += m->regs[b]; break;
    case SUB: m->regs[a] -= m->regs[b]; break;
    case MUL: m->regs[a] *= m->regs[b]; break;
    case DIV: m->regs[a] /= divisor(m, b); break;
    case MOD: m->regs[a] %= divisor(m, b); break;
    case ADDI: m->regs[a] += immediate(code); break;
    case LOAD: m->regs[a] = *cell(m, b); break;
    case STORE: *cell(m, b) = m->regs[a]; break;
    case JUMP: m->pc += immediate(code); break;
    case JZERO:
        if (m->regs[a] == 0)
            m->pc += immediate(code);
        break;
    case JNEG:
        if (m->regs[a] < 0)
            m->pc += immediate(code);
        break;
    case PRINT: printf("%d\n", m->regs[a]); break;
    case SHIFT: m->regs[a] <<= immediate(code); break;
    default: break;
    }
    return 1;
}

static void run(struct machine *m)
{
    while (m->pc >= 0 && m->pc < MEMORY && step(m))
        if (++m->steps > MAX_STEPS)
            die("program", "runs too long");
}

/* The three operations that were used most. */
static void print_profile(const struct machine *m)
{
    long before = m->steps + 2;
    int last = -1;

    for (int rank = 0; rank < 3; rank++) {
        int best = -1;
        for (int i = 0; i < OPS; i++) {
            if (m->used[i] > before || (m->used[i] == before && i <= last))
                continue;
            if (best < 0 || m->used[i] > m->used[best])
                best = i;
        }
        if (best < 0 || m->used[best] == 0)
            break;
        printf("%s%s %ld", rank ? ", " : "", op_names[best], m->used[best]);
        before = m->used[best];
        last = best;
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct machine m;
    static struct assembler as;

    if (argc < 2)
        die("usage", "machine PROGRAM ARGS...");
    as.code = m.code;
    m.low = 1;
    as.argc = argc - 2;
    as.argv = argv + 2;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        if (strcmp(samples[i].name, argv[1]) == 0) {
            assemble(&as, samples[i].text);
            run(&m);
            printf("%d words, %ld steps\n", as.address, m.steps);
            if (m.low <= m.high)
                printf("data from %d to %d\n", m.low, m.high);
            print_profile(&m);
            return 0;
        }
    }
    die("no such program", argv[1]);
    return 2;
}
