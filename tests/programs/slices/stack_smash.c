// A buffer on the stack overflows, which the stack protector finds.
// fails: SIGABRT
// slice: thin
// repair: for (; *from && *from != '=' && to < key + 15; from++)
// flags: -fstack-protector-all
#include <stdio.h>
#include <string.h>

static int settings;

static int setting(const char *line) {
    char key[16] = "";
    char *to = key;
    const char *from = line;
    for (; *from && *from != '='; from++) /* REPAIR */
        *to++ = *from; /* BUG */
    *to = 0;
    settings++; /* NOT */
    printf("[%s]\n", key);
    return (int)strlen(key);
}

int main(void) {
    static const char *const lines[] = {"colour=blue", "size=12", "a.rather.long.name.of.a.setting=1"};
    int length = 0;
    for (int i = 0; i < 3; i++)
        length += setting(lines[i]);
    printf("%d settings, %d letters\n", settings, length);
    return 0;
}
