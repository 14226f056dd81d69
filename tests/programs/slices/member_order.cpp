// Members are made in the order of their declarations: the capacity is computed from a width that is not set yet.
// fails: output
// slice: thin
// repair: Grid(int w, int h) : cells(w * h), width(w), height(h) {}
#include <cstdio>
#include <cstring>
#include <new>

class Grid {
    int cells;
    int width;
    int height;

public:
    Grid(int w, int h) : cells(width * height), width(w), height(h) {} /* BUG */
    int size() const { return cells; }
    int border() const { return 2 * (width + height) - 4; } /* NOT */
};

// Where the grids are: what was there before is still there.
alignas(Grid) static unsigned char arena[4 * sizeof(Grid)];

static void scribble(unsigned char with) {
    for (unsigned char &byte : arena)
        byte = with;
}

int main(int argc, char **) {
    scribble(static_cast<unsigned char>(argc));
    auto *grid = new (arena) Grid(7, 5);
    asm volatile("" ::: "memory");
    std::printf("border %d\n", grid->border());
    std::printf("cells %d\n", grid->size());
    return 0;
}
