// A stale reference: a vector grows while a reference into it is held, and what is added goes to the old memory.
// fails: output
// slice: full
// repair: auto &again = lines.front(); again.amount += amount;
#include <cstdio>
#include <string>
#include <vector>

struct Line {
    std::string name;
    int amount;
};

class Bill {
    std::vector<Line> lines;
    int changes = 0;

public:
    void add(const std::string &name, int amount) {
        if (lines.empty())
            lines.push_back({"total", 0});
        Line &total = lines.front();
        lines.push_back({name, amount}); /* BUG */
        total.amount += amount; /* REPAIR */
        changes++; /* NOT */
    }

    void print() const {
        std::printf("%d changes\n", changes);
        for (const Line &line : lines)
            std::printf("%s %d\n", line.name.c_str(), line.amount);
    }
};

int main() {
    Bill bill;
    bill.add("bread", 3);
    bill.add("butter", 2);
    bill.add("jam", 4);
    bill.print();
    return 0;
}
