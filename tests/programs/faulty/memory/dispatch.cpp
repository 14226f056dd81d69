// Hands out tasks to workers by weight; a task that goes to the waiting list is moved there and then asked for its name.
// fails: SIGSEGV
// run: 10 draw:4 print:5 copy:3 send:2
// good: 20 draw:4 print:5 copy:3 send:2
// good: 10 draw:4 print:5
// good: 3 draw:1 print:50 copy:1 send
// repair:         note("wait", *waiting_.back());
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

struct Task {
    std::string name;
    int weight;
    Task(std::string n, int w) : name(std::move(n)), weight(w) {}
};

struct Worker {
    int load = 0;
    std::vector<std::unique_ptr<Task>> tasks;
};

class Dispatcher {
public:
    Dispatcher(int limit, int workers) : limit_(limit), workers_(workers) {}

    void add(std::unique_ptr<Task> task)
    {
        if (task->weight > limit_) {
            note("drop", *task);
            ++dropped_;
            return;
        }
        Worker &w = lightest();
        if (w.load + task->weight <= limit_ / 2 + 1) {
            give(w, std::move(task));
            return;
        }
        waiting_.push_back(std::move(task));
        note("wait", *task); /* BUG */
    }

    void finish_round()
    {
        for (Worker &w : workers_) {
            w.load = 0;
            w.tasks.clear();
        }
        std::vector<std::unique_ptr<Task>> again;
        again.swap(waiting_);
        for (auto &t : again)
            give(lightest(), std::move(t));
    }

    void report() const
    {
        for (std::size_t i = 0; i < workers_.size(); ++i) {
            std::printf("worker %zu, load %d:", i, workers_[i].load);
            for (const auto &t : workers_[i].tasks)
                std::printf(" %s", t->name.c_str());
            std::printf("\n");
        }
        std::printf("%zu waiting, %d dropped, %d notes\n", waiting_.size(), dropped_, notes_);
    }

private:
    Worker &lightest()
    {
        Worker *best = &workers_[0];
        for (Worker &w : workers_)
            if (w.load < best->load)
                best = &w;
        return *best;
    }

    void give(Worker &w, std::unique_ptr<Task> task)
    {
        note("give", *task);
        w.load += task->weight;
        w.tasks.push_back(std::move(task));
    }

    void note(const char *what, const Task &t)
    {
        ++notes_;
        std::printf("%s %s (%d)\n", what, t.name.c_str(), t.weight);
    }

    int limit_;
    std::vector<Worker> workers_;
    std::vector<std::unique_ptr<Task>> waiting_;
    int dropped_ = 0, notes_ = 0;
};

int main(int argc, char **argv)
{
    Dispatcher d(argc > 1 ? std::atoi(argv[1]) : 10, 2);
    for (int i = 2; i < argc; ++i) {
        std::string text = argv[i];
        std::size_t colon = text.find(':');
        int weight = colon == std::string::npos ? 1 : std::atoi(text.c_str() + colon + 1);
        d.add(std::make_unique<Task>(text.substr(0, colon), weight));
    }
    d.report();
    d.finish_round();
    d.report();
    return 0;
}
