// Puts the stations of a map into a tree and finds the nearest ones to a point; a branch is left out by the distance of the best one found instead of the last one of the list.
// fails: output
// run: 7 120 4 10 10 50 52 90 20 33 71
// good: 42 120 6 10 10 50 52 90 20 33 71
// good: 7 120 1 10 10 50 52 90 20 33 71
// good: 42 5 2 30 30 80 12
// good: 9 60 1 5 95 60 40
// repair: if (!found.full() || gap * gap < found.worst())
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

struct Point {
    long at[2];
};

struct Station {
    std::string name;
    Point where;
    int load = 0;
};

static long distance(const Point &a, const Point &b)
{
    long dx = a.at[0] - b.at[0], dy = a.at[1] - b.at[1];
    return dx * dx + dy * dy;
}

// The nearest stations so far, the nearest one first.
class Found {
public:
    explicit Found(size_t room) : room_(room) {}

    bool full() const { return items_.size() == room_; }
    long best() const { return items_.front().distance; }
    long worst() const { return items_.back().distance; }

    void offer(int station, long distance)
    {
        if (full() && distance >= worst())
            return;
        if (full())
            items_.pop_back();
        auto place = items_.begin();
        while (place != items_.end() && place->distance <= distance)
            ++place;
        items_.insert(place, {station, distance});
    }

    struct Item {
        int station;
        long distance;
    };
    const std::vector<Item> &items() const { return items_; }

private:
    size_t room_;
    std::vector<Item> items_;
};

class Tree {
public:
    explicit Tree(const std::vector<Station> &stations) : stations_(stations)
    {
        std::vector<int> all(stations.size());
        for (size_t i = 0; i < all.size(); i++)
            all[i] = (int)i;
        root_ = build(all.begin(), all.end(), 0);
    }

    Found nearest(const Point &target, size_t count)
    {
        Found found(count);
        visited_ = 0;
        search(root_.get(), target, found);
        return found;
    }

    int height() const { return height(root_.get()); }

private:
    struct Node {
        int station;
        int axis;
        std::unique_ptr<Node> low, high;
    };
    using Iterator = std::vector<int>::iterator;

    std::unique_ptr<Node> build(Iterator first, Iterator last, int depth)
    {
        if (first == last)
            return nullptr;
        int axis = depth % 2;
        std::sort(first, last, [&](int a, int b) {
            const Point &p = stations_[a].where, &q = stations_[b].where;
            return p.at[axis] != q.at[axis] ? p.at[axis] < q.at[axis] : a < b;
        });
        Iterator middle = first + (last - first) / 2;
        std::unique_ptr<Node> n(new Node);
        n->station = *middle;
        n->axis = axis;
        n->low = build(first, middle, depth + 1);
        n->high = build(middle + 1, last, depth + 1);
        return n;
    }

    void search(const Node *n, const Point &target, Found &found)
    {
        if (!n)
            return;
        visited_++;
        const Point &here = stations_[n->station].where;
        found.offer(n->station, distance(here, target));
        long gap = target.at[n->axis] - here.at[n->axis];
        search(gap < 0 ? n->low.get() : n->high.get(), target, found);
        if (!found.full() || gap * gap < found.best()) /* BUG */
            search(gap < 0 ? n->high.get() : n->low.get(), target, found);
    }

    int height(const Node *n) const
    {
        return n ? 1 + std::max(height(n->low.get()), height(n->high.get())) : 0;
    }

    const std::vector<Station> &stations_;
    std::unique_ptr<Node> root_;
    int visited_ = 0;
};

static std::vector<Station> make_map(unsigned seed, int count)
{
    std::vector<Station> stations;
    for (int i = 0; i < count; i++) {
        Station s;
        s.name = std::string(1, (char)('A' + i % 26)) + std::to_string(i / 26 + 1);
        for (int k = 0; k < 2; k++) {
            seed = seed * 1103515245u + 12345u;
            s.where.at[k] = (long)(seed >> 16) % 100;
        }
        stations.push_back(s);
    }
    return stations;
}

// Sends a call to the one of the found stations that has the least to do.
static int assign(std::vector<Station> &stations, const Found &found)
{
    int chosen = -1;
    for (const Found::Item &item : found.items())
        if (chosen < 0 || stations[item.station].load < stations[chosen].load)
            chosen = item.station;
    if (chosen >= 0)
        stations[chosen].load++;
    return chosen;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc % 2) {
        std::fprintf(stderr, "usage: nearest SEED STATIONS COUNT X Y...\n");
        return 2;
    }
    std::vector<Station> stations = make_map((unsigned)std::atoi(argv[1]), std::atoi(argv[2]));
    size_t count = (size_t)std::max(1, std::atoi(argv[3]));
    Tree tree(stations);
    long way = 0;

    std::printf("%zu stations, height %d\n", stations.size(), tree.height());
    for (int round = 0; round < 3; round++) {
        for (int i = 4; i < argc; i += 2) {
            Point call = {{std::atol(argv[i]) + round, std::atol(argv[i + 1]) - round}};
            Found found = tree.nearest(call, count);
            int chosen = assign(stations, found);
            if (chosen < 0)
                continue;
            way += distance(stations[chosen].where, call);
            std::printf("call from %ld,%ld goes to %s\n", call.at[0], call.at[1], stations[chosen].name.c_str());
        }
    }
    int busiest = 0;
    for (const Station &s : stations)
        busiest = std::max(busiest, s.load);
    std::printf("squared ways %ld, busiest has %d\n", way, busiest);
    return 0;
}
