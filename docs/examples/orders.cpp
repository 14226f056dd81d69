// What orders are worth, by a list of prices. An order of what is not in the list ends all.
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Order {
    std::string what;
    int pieces;
};

static std::vector<Order> read(const char *path)
{
    std::ifstream file(path);
    std::vector<Order> orders;
    Order order;
    while (file >> order.what >> order.pieces)
        orders.push_back(order);
    return orders;
}

static long total(const std::vector<Order> &orders, const std::map<std::string, long> &prices)
{
    long sum = 0;
    for (const Order &order : orders)
        sum += order.pieces * prices.at(order.what);
    return sum;
}

int main(int argc, char **argv)
{
    const std::map<std::string, long> prices{{"honey", 599}, {"jam", 289}, {"sugar", 119}};
    try {
        std::cout << total(read(argv[argc - 1]), prices) << '\n';
    } catch (const std::exception &error) {
        std::cerr << "orders: " << error.what() << '\n';
        return 1;
    }
}
