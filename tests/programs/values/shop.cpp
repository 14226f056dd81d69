// What a person reads in a debugger: texts, lists and maps, in a program that goes wrong in the middle of its work.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
struct Order {
    char kind;
    double price;
    std::string who;
};
__attribute__((noinline)) static double sum(const std::vector<Order> &orders, const std::map<std::string, int> &stock) {
    double all = 0;
    for (auto &order : orders)
        all += order.price * stock.at(order.who);
    return all;
}
int main() {
    std::vector<Order> orders;
    std::map<std::string, int> stock;
    std::set<int> seen;
    std::unordered_map<int, std::string> names;
    for (int i = 0; i < 5; i++) {
        orders.push_back({char('a' + i), i * 1.5, "customer " + std::to_string(i)});
        stock["customer " + std::to_string(i)] = i + 10;
        seen.insert(i * i);
    }
    names[7] = "seven";
    std::string motto = "a text that is too long to be kept inside of itself";
    std::vector<int> none;
    if (sum(orders, stock) > 100)
        abort();
    printf("%s %zu %zu %zu\n", motto.c_str(), seen.size(), names.size(), none.size());
}
