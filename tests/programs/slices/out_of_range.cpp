// An exception that nobody catches: the median of an even number of values takes one behind the end.
// fails: SIGABRT
// slice: thin
// repair: const std::size_t upper = sorted.size() / 2;
#include <algorithm>
#include <cstdio>
#include <vector>

class Samples {
    std::vector<int> values;
    int added = 0;

public:
    void add(int value) {
        values.push_back(value);
        added++; /* NOT */
    }

    int median() const {
        std::vector<int> sorted = values;
        std::sort(sorted.begin(), sorted.end());
        const std::size_t upper = (sorted.size() + 2) / 2; /* BUG */
        if (sorted.size() % 2 == 1)
            return sorted.at(upper - 1);
        return (sorted.at(upper - 1) + sorted.at(upper)) / 2;
    }
};

int main() {
    Samples samples;
    for (int value : {5, 3, 8}) {
        samples.add(value);
    }
    std::printf("%d\n", samples.median());
    Samples two;
    two.add(4);
    two.add(6);
    std::printf("%d\n", two.median());
    return 0;
}
