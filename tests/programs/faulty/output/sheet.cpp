// A small spreadsheet with formulas; a cell whose formula fails stays marked as being worked out and counts as a circle ever after.
// fails: output
// run: A1=8 A2=0 B1==A1/A2 B2==B1+1 C1==sum(A1:B1) print A2=4 print A1==B2-1 print A1=20 print
// good: A1=8 A2=2 B1==A1/A2 B2==B1+1 C1==sum(A1:B1) print A2=4 print
// good: A1=1 A2==A1+1 A3==A2*2 B1==max(A1:A3) print A1=7 print A3=0 print
// good: A1==B1+1 B1==A1*2 C1=5 C2==C1*C1 print C1=6 print
// good: A1==9/0 A2=3 B1==A2*A2 print A2=5 print
// repair: if (!reader.ok) { cell.busy = false; return fail(cell, reader.error); }
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

static const int rows = 20;
static const int columns = 8;

struct Place {
    int column, row;
    bool operator<(const Place &o) const { return column != o.column ? column < o.column : row < o.row; }
};

struct Cell {
    std::string text;
    std::string error;
    double value = 0;
    bool known = false;
    bool busy = false;
    std::set<Place> users;
};

class Sheet {
public:
    void set(Place where, const std::string &text);
    void print();
    const Cell &value_of(Place where);
    void note_use(Place user, Place used) { cells_[used].users.insert(user); }
    int computed() const { return computed_; }

private:
    void forget(Place where);
    const Cell &fail(Cell &cell, const std::string &error);

    std::map<Place, Cell> cells_;
    int computed_ = 0;
};

static bool parse_place(const char *&s, Place &p)
{
    if (!std::isupper((unsigned char)*s) || *s - 'A' >= columns || !std::isdigit((unsigned char)s[1]))
        return false;
    char *end;
    p.column = *s - 'A';
    p.row = (int)std::strtol(s + 1, &end, 10);
    s = end;
    return p.row >= 1 && p.row <= rows;
}

// Reads a formula and works it out in one go.
class Reader {
public:
    Reader(Sheet &sheet, Place self, const char *text) : sheet_(sheet), self_(self), at_(text) {}
    double formula()
    {
        double v = sum();
        if (ok && *at_)
            stop("#SYNTAX");
        return v;
    }
    bool ok = true;
    std::string error;

private:
    double stop(const std::string &what)
    {
        if (ok)
            error = what;
        ok = false;
        return 0;
    }
    double sum()
    {
        double v = product();
        while (ok && (*at_ == '+' || *at_ == '-')) {
            char op = *at_++;
            double w = product();
            v = op == '+' ? v + w : v - w;
        }
        return v;
    }
    double product()
    {
        double v = factor();
        while (ok && (*at_ == '*' || *at_ == '/')) {
            char op = *at_++;
            double w = factor();
            if (op == '*')
                v *= w;
            else if (w == 0)
                return stop("#DIV0");
            else
                v /= w;
        }
        return v;
    }
    double factor()
    {
        if (*at_ == '(') {
            at_++;
            double v = sum();
            if (*at_ != ')')
                return stop("#SYNTAX");
            at_++;
            return v;
        }
        if (*at_ == '-') {
            at_++;
            return -factor();
        }
        if (std::isdigit((unsigned char)*at_)) {
            char *end;
            double v = std::strtod(at_, &end);
            at_ = end;
            return v;
        }
        if (std::islower((unsigned char)*at_))
            return function();
        Place p;
        if (!parse_place(at_, p))
            return stop("#SYNTAX");
        return cell(p);
    }
    double cell(Place p)
    {
        sheet_.note_use(self_, p);
        const Cell &c = sheet_.value_of(p);
        if (!c.error.empty())
            return stop(c.error);
        return c.value;
    }
    double function()
    {
        std::string name;
        while (std::islower((unsigned char)*at_))
            name += *at_++;
        Place from, to;
        if (*at_++ != '(' || !parse_place(at_, from) || *at_++ != ':' || !parse_place(at_, to) || *at_++ != ')')
            return stop("#SYNTAX");
        double total = 0, most = 0;
        int n = 0;
        for (int c = from.column; c <= to.column; c++) {
            for (int r = from.row; r <= to.row && ok; r++, n++) {
                double v = cell({c, r});
                total += v;
                if (n == 0 || v > most)
                    most = v;
            }
        }
        if (name == "sum")
            return total;
        if (name == "max")
            return most;
        if (name == "mean" && n > 0)
            return total / n;
        return stop("#NAME");
    }

    Sheet &sheet_;
    Place self_;
    const char *at_;
};

// What was worked out from this cell has to be worked out again.
void Sheet::forget(Place where)
{
    Cell &cell = cells_[where];
    if (!cell.known)
        return;
    cell.known = false;
    for (Place user : cell.users)
        forget(user);
}

void Sheet::set(Place where, const std::string &text)
{
    forget(where);
    cells_[where].text = text;
}

const Cell &Sheet::fail(Cell &cell, const std::string &error)
{
    cell.error = error;
    cell.value = 0;
    cell.known = true;
    return cell;
}

const Cell &Sheet::value_of(Place where)
{
    static const Cell circle = [] {
        Cell c;
        c.error = "#CIRCLE";
        return c;
    }();

    Cell &cell = cells_[where];
    if (cell.known)
        return cell;
    cell.error.clear();
    if (cell.text.empty() || cell.text[0] != '=') {
        cell.value = std::atof(cell.text.c_str());
        cell.known = true;
        return cell;
    }
    if (cell.busy)
        return circle;
    cell.busy = true;
    computed_++;
    Reader reader(*this, where, cell.text.c_str() + 1);
    double value = reader.formula();
    if (!reader.ok) return fail(cell, reader.error); /* BUG */
    cell.busy = false;
    cell.value = value;
    cell.known = true;
    return cell;
}

void Sheet::print()
{
    int last = 0;

    for (const auto &entry : cells_)
        if (!entry.second.text.empty() && entry.first.row > last)
            last = entry.first.row;
    for (int r = 1; r <= last; r++) {
        std::printf("%2d", r);
        for (int c = 0; c < 4; c++) {
            auto found = cells_.find({c, r});
            if (found == cells_.end() || found->second.text.empty()) {
                std::printf(" | %9s", "");
                continue;
            }
            const Cell &cell = value_of({c, r});
            if (cell.error.empty())
                std::printf(" | %9.6g", cell.value);
            else
                std::printf(" | %9s", cell.error.c_str());
        }
        std::printf("\n");
    }
    std::printf("worked out so far: %d\n", computed_);
}

int main(int argc, char **argv)
{
    Sheet sheet;

    for (int i = 1; i < argc; i++) {
        const char *s = argv[i];
        if (std::strcmp(s, "print") == 0) {
            sheet.print();
            continue;
        }
        Place where;
        if (!parse_place(s, where) || *s != '=') {
            std::fprintf(stderr, "sheet: not understood: %s\n", argv[i]);
            return 2;
        }
        sheet.set(where, s + 1);
    }
    return 0;
}
