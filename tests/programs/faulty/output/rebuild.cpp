// Plans what a build has to make anew and in which order; a target whose input is made anew but is not newer yet is left as it is.
// fails: output
// run: 'app: main.o util.o lib.a' 'main.o: main.c util.h' 'util.o: util.c util.h' 'lib.a: list.o' 'list.o: list.c' 'doc: app' main.c=1 util.c=1 util.h=1 list.c=9 main.o=3 util.o=3 list.o=3 lib.a=4 app=5 doc=6
// good: 'app: main.o util.o' 'main.o: main.c util.h' 'util.o: util.c util.h' main.c=1 util.c=1 util.h=1 main.o=3 util.o=3 app=5
// good: 'app: main.o util.o' 'main.o: main.c util.h' 'util.o: util.c util.h' main.c=1 util.c=2 util.h=1
// good: 'out: a b c' 'sum: a' a=5 b=7 c=2 out=6 sum=5
// good: 'x: y' 'y: z' z=4 y=5
// repair: if (input_time > own_time || changed(input)) {
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

struct Rule {
    std::vector<std::string> inputs;
};

enum class Mark { New, Open, Done };

struct Target {
    Mark mark = Mark::New;
    bool made = false;
    std::string reason;
};

class Planner {
public:
    void add_rule(const std::string &text);
    void set_time(const std::string &text);
    void plan();
    void print() const;

private:
    static constexpr int missing = -1;

    int time_of(const std::string &name) const;
    bool changed(const std::string &name) const;
    bool visit(const std::string &name);
    void decide(const std::string &name, const Rule &rule);
    int depth(const std::string &name) const;

    std::map<std::string, Rule> rules_;
    std::vector<std::string> rule_order_;
    std::map<std::string, int> times_;
    std::map<std::string, Target> targets_;
    std::vector<std::string> order_;
    std::vector<std::string> trouble_;
};

static std::vector<std::string> split(const std::string &text)
{
    std::vector<std::string> words;
    size_t at = 0;
    while (at < text.size()) {
        size_t end = text.find(' ', at);
        if (end == std::string::npos)
            end = text.size();
        if (end > at)
            words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

void Planner::add_rule(const std::string &text)
{
    size_t colon = text.find(':');
    std::string name = text.substr(0, colon);
    if (!rules_.count(name))
        rule_order_.push_back(name);
    for (const std::string &input : split(text.substr(colon + 1)))
        rules_[name].inputs.push_back(input);
}

void Planner::set_time(const std::string &text)
{
    size_t equals = text.find('=');
    times_[text.substr(0, equals)] = std::atoi(text.c_str() + equals + 1);
}

int Planner::time_of(const std::string &name) const
{
    auto found = times_.find(name);
    return found == times_.end() ? missing : found->second;
}

bool Planner::changed(const std::string &name) const
{
    auto found = targets_.find(name);
    return found != targets_.end() && found->second.made;
}

// Finds out whether the target has to be made. Its inputs are settled by then.
void Planner::decide(const std::string &name, const Rule &rule)
{
    Target &target = targets_[name];
    int own_time = time_of(name);

    if (own_time == missing) {
        target.made = true;
        target.reason = "is missing";
        return;
    }
    for (const std::string &input : rule.inputs) {
        int input_time = time_of(input);
        if (input_time > own_time) { /* BUG */
            target.made = true;
            target.reason = "older than " + input;
            return;
        }
    }
}

// False if the target depends on itself.
bool Planner::visit(const std::string &name)
{
    Target &target = targets_[name];
    if (target.mark == Mark::Done)
        return true;
    if (target.mark == Mark::Open) {
        trouble_.push_back(name + " depends on itself");
        return false;
    }
    auto found = rules_.find(name);
    if (found == rules_.end()) {
        if (time_of(name) == missing)
            trouble_.push_back("no rule for " + name);
        target.mark = Mark::Done;
        return true;
    }
    target.mark = Mark::Open;
    bool fine = true;
    for (const std::string &input : found->second.inputs)
        fine = visit(input) && fine;
    if (fine)
        decide(name, found->second);
    if (target.made)
        order_.push_back(name);
    target.mark = Mark::Done;
    return fine;
}

void Planner::plan()
{
    for (const std::string &name : rule_order_)
        visit(name);
}

// How many steps have to come before this one.
int Planner::depth(const std::string &name) const
{
    auto found = rules_.find(name);
    if (found == rules_.end() || !changed(name))
        return 0;
    int deepest = 0;
    for (const std::string &input : found->second.inputs)
        deepest = std::max(deepest, depth(input));
    return deepest + 1;
}

void Planner::print() const
{
    std::map<int, std::vector<std::string>> rounds;

    for (const std::string &line : trouble_)
        std::printf("trouble: %s\n", line.c_str());
    if (!trouble_.empty())
        return;
    for (const std::string &name : order_) {
        std::printf("make %s (%s)\n", name.c_str(), targets_.at(name).reason.c_str());
        rounds[depth(name)].push_back(name);
    }
    for (const auto &round : rounds) {
        std::printf("round %d:", round.first);
        for (const std::string &name : round.second)
            std::printf(" %s", name.c_str());
        std::printf("\n");
    }
    std::printf("%zu of %zu targets, %zu rounds\n", order_.size(), rules_.size(), rounds.size());
}

int main(int argc, char **argv)
{
    Planner planner;

    for (int i = 1; i < argc; i++) {
        std::string text = argv[i];
        if (text.find(':') != std::string::npos) {
            planner.add_rule(text);
        } else if (text.find('=') != std::string::npos) {
            planner.set_time(text);
        } else {
            std::fprintf(stderr, "rebuild: neither a rule nor a time: %s\n", argv[i]);
            return 2;
        }
    }
    planner.plan();
    planner.print();
    return 0;
}
