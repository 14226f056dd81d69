// Writes texts as hex digits, plain or with colons between the bytes; with colons the block has no room for the terminator, which lands in the spare bytes behind it.
// fails: silent
// run: -c example text
// good: example text
// good: -u example of
// good: -u -p 'longer example' a
// repair:         return n ? 3 * n : 1;
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct style {
    int colons;
    int prefix;
    const char *digits;
};

static size_t room_for(const struct style *st, size_t n)
{
    if (st->colons)
        return n ? 3 * n - 1 : 1; /* BUG */
    return 2 * n + 1;
}

static char *to_hex(const struct style *st, const char *text, size_t n)
{
    char *out = malloc(room_for(st, n)), *p = out;
    if (!out)
        exit(2);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = text[i];
        if (st->colons && i > 0)
            *p++ = ':';
        *p++ = st->digits[c >> 4];
        *p++ = st->digits[c & 15];
    }
    *p = '\0';
    return out;
}

static unsigned check_sum(const char *s)
{
    unsigned a = 1, b = 0;
    for (; *s; s++) {
        a = (a + (unsigned char)*s) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

int main(int argc, char **argv)
{
    struct style st = { 0, 0, "0123456789abcdef" };
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        switch (argv[i][1]) {
        case 'c': st.colons = 1; break;
        case 'u': st.digits = "0123456789ABCDEF"; break;
        case 'p': st.prefix = 1; break;
        default: return 2;
        }
    }
    char *lines[16];
    int count = 0;
    for (; i < argc && count < 16; i++)
        lines[count++] = to_hex(&st, argv[i], strlen(argv[i]));
    for (i = 0; i < count; i++) {
        printf("%s%s %08x\n", st.prefix ? "0x" : "", lines[i], check_sum(lines[i]));
        free(lines[i]);
    }
    printf("%d lines\n", count);
    return 0;
}
