// Keeps accounts and books transfers between them; the payer is held by reference while an account for the receiver may be added.
// fails: output
// run: ann+100 bob+50 ann-bob:30 bob-cat:45 cat-dan:5 ann-eve:20
// good: ann+100 bob+50 ann-bob:30 bob-ann:45
// good: ann+100 ann+7 zoe+1 ann-zoe:120
// good: ann+1 bob+2 cat+3 dan+4 eve+5 eve-bob:3 eve-dan:9
// repair:         accounts_[from].balance -= amount;
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Account {
    std::string owner;
    long balance;
    int bookings;
};

class Bank {
public:
    void deposit(const std::string &owner, long amount)
    {
        Account &a = accounts_[find_or_open(owner)];
        a.balance += amount;
        ++a.bookings;
    }

    void transfer(const std::string &payer, const std::string &receiver, long amount)
    {
        std::size_t from = find(payer);
        Account &source = accounts_[from];
        if (source.balance < amount)
            throw std::runtime_error(payer + " has too little");
        std::size_t to = find_or_open(receiver);
        source.balance -= amount; /* BUG */
        accounts_[from].bookings++;
        accounts_[to].balance += amount;
        accounts_[to].bookings++;
    }

    long total() const
    {
        long sum = 0;
        for (const Account &a : accounts_)
            sum += a.balance;
        return sum;
    }

    void report() const
    {
        for (const Account &a : accounts_)
            std::printf("%-8s %6ld %d\n", a.owner.c_str(), a.balance, a.bookings);
        std::printf("%-8s %6ld\n", "total", total());
    }

private:
    std::size_t find(const std::string &owner) const
    {
        auto it = index_.find(owner);
        if (it == index_.end())
            throw std::runtime_error("no account for " + owner);
        return it->second;
    }

    std::size_t find_or_open(const std::string &owner)
    {
        auto it = index_.find(owner);
        if (it != index_.end())
            return it->second;
        accounts_.push_back({owner, 0, 0});
        std::size_t at = accounts_.size() - 1;
        index_[owner] = at;
        return at;
    }

    std::vector<Account> accounts_;
    std::map<std::string, std::size_t> index_;
};

static void obey(Bank &bank, const std::string &order)
{
    std::size_t plus = order.find('+'), dash = order.find('-'), colon = order.find(':');
    if (plus != std::string::npos)
        bank.deposit(order.substr(0, plus), std::atol(order.c_str() + plus + 1));
    else if (dash != std::string::npos && colon != std::string::npos && dash < colon)
        bank.transfer(order.substr(0, dash), order.substr(dash + 1, colon - dash - 1),
                      std::atol(order.c_str() + colon + 1));
    else
        throw std::runtime_error("cannot read " + order);
}

int main(int argc, char **argv)
{
    Bank bank;
    for (int i = 1; i < argc; ++i) {
        try {
            obey(bank, argv[i]);
        } catch (const std::exception &e) {
            std::printf("%s: %s\n", argv[i], e.what());
        }
    }
    bank.report();
    return 0;
}
