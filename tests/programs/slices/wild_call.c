// A call that goes nowhere: a command has a number one too high, and its entry in the table is no function.
// fails: SIGSEGV
// slice: full
// O2: gone, since the loop is unrolled, and its number is no value any more
// repair: return i;
#include <stdio.h>
#include <string.h>

static long stack[16];
static int top, steps;

static void add(void) {
    top--;
    stack[top - 1] += stack[top];
}

static void multiply(void) {
    top--;
    stack[top - 1] *= stack[top];
}

static void negate(void) {
    stack[top - 1] = -stack[top - 1];
}

static void (*table[8])(void) = {add, multiply, negate};
static const char *const names[] = {"add", "multiply", "negate"};

static int command(const char *name) {
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name))
            return i == 2 ? i + 1 : i; /* BUG */
    return -1;
}

static void push(long value) {
    stack[top++] = value;
}

int main(void) {
    static const char *const program[] = {"add", "multiply", "negate"};
    push(2);
    push(3);
    push(4);
    for (int i = 0; i < 3; i++) {
        table[command(program[i])]();
        steps++; /* NOT */
    }
    printf("%ld after %d steps\n", stack[0], steps);
    return 0;
}
