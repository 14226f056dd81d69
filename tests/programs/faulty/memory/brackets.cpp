// Checks the brackets of texts and shows the deepest nesting; a closing bracket asks for the top of the stack before it is known whether there is one.
// fails: silent
// run: '(a[0])' '(x)) + y' 'f({1})'
// good: '(a[0])' 'f({1})'
// good: '((a)' '[{}]' 'plain'
// good: '(a]' '<x>' ''
// repair:         const char top = open_.empty() ? 0 : open_.back();
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

struct Verdict {
    bool good;
    std::size_t at;
    std::string reason;
};

class Checker {
public:
    Checker() { open_.reserve(64); }

    Verdict check(const std::string &text)
    {
        open_.clear();
        deepest_ = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            char c = text[i];
            if (is_opening(c)) {
                open_.push_back(c);
                deepest_ = std::max(deepest_, open_.size());
            } else if (is_closing(c) && !close(c)) {
                return {false, i, std::string("unexpected ") + c};
            }
        }
        if (!open_.empty())
            return {false, text.size(), std::string("open ") + open_.back()};
        return {true, 0, ""};
    }

    std::size_t deepest() const { return deepest_; }

private:
    static bool is_opening(char c) { return c == '(' || c == '[' || c == '{'; }
    static bool is_closing(char c) { return c == ')' || c == ']' || c == '}'; }

    static char partner(char c)
    {
        switch (c) {
        case ')': return '(';
        case ']': return '[';
        default: return '{';
        }
    }

    bool close(char c)
    {
        const char top = open_.back(); /* BUG */
        if (open_.empty() || top != partner(c))
            return false;
        open_.pop_back();
        ++closed_;
        return true;
    }

    std::vector<char> open_;
    std::size_t deepest_ = 0;
    int closed_ = 0;
};

int main(int argc, char **argv)
{
    Checker checker;
    int good = 0;
    for (int i = 1; i < argc; ++i) {
        Verdict v = checker.check(argv[i]);
        if (v.good) {
            ++good;
            std::printf("%s: fine, %zu deep\n", argv[i], checker.deepest());
        } else {
            std::printf("%s: %s at %zu\n", argv[i], v.reason.c_str(), v.at);
        }
    }
    std::printf("%d of %d fine\n", good, argc - 1);
    return 0;
}
