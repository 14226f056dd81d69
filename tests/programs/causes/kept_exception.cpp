// An exception is kept, and thrown again elsewhere: where it was thrown first is where one looks.
// run: pointer
// run: future
// run: again
// symptom: crash
// says: an exception that nobody catches
// says: by which __cxa_throw was called
// never: has no line information
// among: 3
#include <cstdio>
#include <cstring>
#include <exception>
#include <future>
#include <stdexcept>
static int price(int number) {
    if (number > 2)
        throw std::out_of_range("no such price");
    return number * 10;
}
static int total(int one, int other) {
    int last = one + other; /* BUG */
    return price(one) + price(last);
}
static int counted(int one, int other) {
    try {
        return price(one + 9 * other);
    } catch (std::out_of_range &) {
        return 1;
    }
}
int main(int, char **argv) {
    int all = 0;
    for (int i = 0; i < 20; i++)
        all += counted(i, 1);
    if (!strcmp(argv[1], "future")) {
        auto later = std::async(std::launch::async, [] { return total(1, 2); });
        return later.get();
    }
    if (!strcmp(argv[1], "again")) {
        try {
            return total(1, 2);
        } catch (...) {
            std::puts("cleaning up");
            throw;
        }
    }
    std::exception_ptr kept;
    try {
        total(1, 2);
    } catch (...) {
        kept = std::current_exception();
    }
    std::puts("cleaning up");
    if (kept)
        std::rethrow_exception(kept);
    return all;
}
