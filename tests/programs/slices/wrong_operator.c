// A wrong operator: a calculator adds where it is to subtract.
// fails: output
// slice: thin
// O2: gone, since both branches do the same, the compiler leaves one
// repair: value = value - right;
#include <ctype.h>
#include <stdio.h>

struct parser {
    const char *at;
    int operations;
};

static long expression(struct parser *parser);

static long factor(struct parser *parser) {
    if (*parser->at == '(') {
        parser->at++;
        long value = expression(parser);
        parser->at++;
        return value;
    }
    long value = 0;
    while (isdigit((unsigned char)*parser->at))
        value = value * 10 + (*parser->at++ - '0');
    return value;
}

static long term(struct parser *parser) {
    long value = factor(parser);
    while (*parser->at == '*') {
        parser->at++;
        parser->operations++; /* NOT */
        value = value * factor(parser);
    }
    return value;
}

static long expression(struct parser *parser) {
    long value = term(parser);
    while (*parser->at == '+' || *parser->at == '-') {
        char operator = *parser->at++;
        long right = term(parser);
        parser->operations++; /* NOT */
        if (operator == '+')
            value = value + right;
        else
            value = value + right; /* BUG */
    }
    return value;
}

int main(void) {
    static const char *const texts[] = {"1+2*3", "2*(3+4)", "100-(2+3)*4", "7*7-7"};
    int operations = 0;
    for (int i = 0; i < 4; i++) {
        struct parser parser = {texts[i], 0};
        printf("%s = %ld\n", texts[i], expression(&parser));
        operations += parser.operations; /* NOT */
    }
    printf("%d operations\n", operations);
    return 0;
}
