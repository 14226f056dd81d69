// An exception of the program's own that nobody catches: a parser takes a closing bracket for an opening one.
// fails: SIGABRT
// slice: full
// repair: depth--;
#include <cstdio>
#include <stdexcept>
#include <string>

class Checker {
    int depth = 0;
    int letters = 0;

    void character(char c) {
        if (c == '(')
            depth++;
        else if (c == ')')
            depth++; /* BUG */
        else
            letters++; /* NOT */
    }

public:
    int check(const std::string &text) {
        for (char c : text)
            character(c);
        if (depth != 0)
            throw std::runtime_error("brackets in " + text);
        return letters;
    }
};

int main() {
    for (const char *text : {"abc", "a(bc)d", "(x)"}) {
        Checker checker;
        std::printf("%d\n", checker.check(text));
    }
    return 0;
}
