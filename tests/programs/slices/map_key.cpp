// A key that is not there: it is asked for in small letters, and was stored in large ones.
// fails: SIGABRT
// slice: full
// O2: gone, since the search begins with the end as its result, and what decides that it stays so is not executed
// repair: c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
#include <cctype>
#include <cstdio>
#include <map>
#include <string>

class Phones {
    std::map<std::string, int> numbers;
    int stored = 0;

    static std::string folded(const std::string &name) {
        std::string all = name;
        for (char &c : all)
            c = static_cast<char>(std::toupper(static_cast<unsigned char>(c))); /* BUG */
        return all;
    }

public:
    void store(const std::string &name, int number) {
        numbers[folded(name)] = number;
        stored++; /* NOT */
    }

    int number(const std::string &name) const { return numbers.at(name); }
    int count() const { return stored; }
};

int main() {
    Phones phones;
    phones.store("ada", 1815);
    phones.store("emmy", 1882);
    std::printf("%d\n", phones.count());
    std::printf("%d\n", phones.number("emmy"));
    return 0;
}
