// A missing return: the caller takes for a digit's value what happens to be in the register for it, which is right but for letters.
// fails: output
// slice: thin
// O2: gone, since the compiler computes no value that is undefined
// repair: return value; }
#include <stdio.h>

static int letters;

static int digit(char c) {
    int value = c - '0'; /* BUG */
    if (value > 9)
        value -= 'a' - '0' - 10;
} /* REPAIR */

static unsigned number(const char *text) {
    unsigned value = 0;
    for (; *text; text++) {
        value = value * 16 + (unsigned)digit(*text);
        if (*text > '9')
            letters++; /* NOT */
    }
    return value;
}

int main(void) {
    static const char *const texts[] = {"10", "99", "7f", "beef"};
    for (int i = 0; i < 4; i++)
        printf("%s is %u\n", texts[i], number(texts[i]));
    printf("%d letters\n", letters);
    return 0;
}
