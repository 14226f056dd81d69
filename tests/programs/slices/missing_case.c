// A missing case: the reader of strings knows no \t, and gives the letter.
// fails: output
// slice: full
// repair: switch (*from) { case 't': *to++ = '\t'; break;
#include <stdio.h>
#include <string.h>

static int escapes;

static int unescape(const char *from, char *to) {
    char *start = to;
    while (*from) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        from++;
        escapes++; /* NOT */
        switch (*from) { /* BUG */
        case 'n':
            *to++ = '\n';
            break;
        case '\\':
            *to++ = '\\';
            break;
        default:
            *to++ = *from;
            break;
        }
        from++;
    }
    *to = 0;
    return (int)(to - start);
}

int main(void) {
    static const char *const lines[] = {"one\\\\two", "red\\tgreen\\tblue", "end\\n"};
    char text[64];
    int all = 0;
    for (int i = 0; i < 3; i++) {
        int length = unescape(lines[i], text);
        all += length; /* NOT */
        printf("[%s]\n", text);
    }
    printf("%d bytes, %d escapes\n", all, escapes);
    return 0;
}
